//! The shared object as a file: what it exports, what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::common::{hook, repository};

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).arg(hook()).env("LC_ALL", "C").output();
    let done = done.unwrap_or_else(|error| panic!("{program} can't be run: {error}"));
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn exported() -> BTreeSet<String> {
    let listed = output("nm", &["-D", "--defined-only"]);
    listed.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect()
}

/// The rows of a table in `hook/README.md`: first cell, and the rest.
fn table(head: &str) -> BTreeMap<String, String> {
    let readme = std::fs::read_to_string(repository().join("hook/README.md")).expect("hook/README.md");
    let table = readme.split(head).nth(1).unwrap_or_else(|| panic!("no table {head} in hook/README.md"));
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).skip(1);
    let mut all = BTreeMap::new();
    for row in rows {
        let mut cells = row.splitn(3, '`').skip(1).map(str::to_owned);
        let (symbol, rest) = (cells.next().expect("a symbol"), cells.next().expect("the rest"));
        assert_eq!(all.insert(symbol.clone(), rest), None, "{symbol} is there twice");
    }
    all
}

#[test]
fn the_exported_symbols_are_those_of_the_readme() {
    let documented: BTreeSet<String> = table("| symbol | what it does |").into_keys().collect();
    assert_eq!(exported(), documented);
}

/// `entry_points.txt` is made from NVIDIA's headers by `.ci/entry-points`.
#[test]
fn every_entry_point_of_the_headers_is_hooked_or_left_alone_for_a_reason() {
    let headers = include_str!("entry_points.txt");
    let (exported, alone) = (exported(), table("| symbol | | why |"));
    let hooked = |name: &str| exported.contains(name) || exported.contains(&format!("{name}_v2"));
    let family = |name: &str| name.trim_end_matches("_v3").trim_end_matches("_v2").to_owned();
    for name in headers.lines() {
        let known = hooked(name) || alone.contains_key(name) || alone.contains_key(&family(name));
        let known = known || alone.contains_key(&format!("{name}_v2"));
        assert!(known, "{name} is neither exported nor in the table of what is left alone");
    }
    assert_eq!(headers.lines().count(), 74);
    for (symbol, rest) in &alone {
        assert!(!exported.contains(symbol), "{symbol} is exported");
        let reason = rest.trim_end_matches(" |").rsplit("| ").next().unwrap_or("");
        assert!(reason.len() >= 8, "{symbol} has no reason: {rest}");
    }
}

#[test]
fn what_is_told_of_is_what_the_readme_says() {
    let source = std::fs::read_to_string(repository().join("hook/src/ffi/driver/uncounted.rs")).unwrap();
    let list = source.split("\nuncounted! {").nth(1).expect("the list");
    let told: BTreeSet<String> = list.lines().filter_map(|line| Some(line.split('"').nth(1)?.to_owned())).collect();
    let alone = table("| symbol | | why |");
    let documented = alone.into_iter().filter(|(_, rest)| rest.starts_with(" | told |")).map(|(symbol, _)| symbol);
    assert_eq!(told, documented.collect());
}

#[test]
fn it_needs_the_c_library_and_nothing_of_cuda() {
    let dynamic = output("readelf", &["-d"]);
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{dynamic}");
    let expected = |name: &&&str| ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"].contains(*name);
    let others: Vec<&&str> = needed.iter().filter(|name| !expected(name)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// 2.34 is where `dlsym` moved into libc (2021); what is built on an older system needs less.
#[test]
fn it_runs_on_glibc_2_34() {
    let versions = output("readelf", &["-V"]);
    let newest = versions
        .split("GLIBC_")
        .skip(1)
        .filter_map(|rest| {
            let number = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
            let (major, minor) = number.split_once('.')?;
            Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
        })
        .max();
    assert!(newest.is_some() && newest <= Some((2, 34)), "{newest:?}");
}
