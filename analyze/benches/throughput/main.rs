//! `make bench-analyze`
mod generate;
fn main() {
    let dir = std::path::PathBuf::from(std::env::var("DIR").unwrap_or("build/bench".into()));
    std::fs::create_dir_all(&dir).unwrap();
    let n = |v: &str, d: u64| std::env::var(v).ok().and_then(|t| t.parse().ok()).unwrap_or(d);
    let t = generate::write(&dir.join("lines.log"), generate::Form::Lines, n("LINES", 10_000_000)).unwrap();
    println!("{t:?}");
    let t = generate::write(&dir.join("records.jsonl"), generate::Form::Records, n("RECORDS", 5_000_000)).unwrap();
    println!("{t:?}");
}
