//! As much of the hook's policy as its settings need.

#[path = "../../../hook/src/policy/bucket.rs"]
mod bucket;
#[path = "../../../hook/src/policy/quota.rs"]
mod quota;

pub(crate) use bucket::Bucket;
pub(crate) use quota::MAX_DEVICES;

/// As the policy has it, without what processes share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) quota: Option<u64>,
    pub(crate) bucket: Option<(f64, f64)>,
}
