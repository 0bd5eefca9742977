//! Whether the lines and the records of a run tell the same.

use super::conformance::{Check, Status};
use crate::events::{Events, Misfit};

/// Every line has its record: a record, written as the line that the hook prints beside it, is that line, with size,
/// outcome, total and level.
pub(super) fn log_agrees(events: &Events) -> Check {
    let id = "log-agrees";
    let agreement = &events.agreement;
    if let Some(Misfit { line, why, numbers, sure }) = &agreement.misfit {
        if *sure {
            let check = Check::new(id, Status::Fail, Some(*line), why.en.clone(), why.zh.clone());
            return match *numbers {
                Some((record, line)) => check.measured(record, line, None),
                None => check,
            };
        }
        let detail = format!("{} (a part may be missing, or the records be another run's)", why.en);
        return Check::not_applicable(id, detail, format!("{} (可能有缺失, 或记录属于另一次运行)", why.zh));
    }
    match (agreement.both, agreement.lines_only) {
        (0, _) => {
            Check::not_applicable(id, "no call is here as a line and as a record", "没有同时以日志行和记录出现的调用")
        }
        (both, 0) => Check::new(
            id,
            Status::Pass,
            None,
            format!("{both} calls are the same as line and as record: sizes, outcomes, totals, tokens as rounded"),
            format!("{both} 次调用的日志行与记录一致: 大小, 结果, 总量, 令牌数 (按显示的小数位)"),
        ),
        (both, cut) => Check::new(
            id,
            Status::Pass,
            None,
            format!("{both} calls are the same as line and as record; of the last {cut} the record was cut off"),
            format!("{both} 次调用的日志行与记录一致; 最后 {cut} 次的记录未写完"),
        ),
    }
}
