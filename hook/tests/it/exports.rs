//! The shared object as a file: what it exports, what it needs.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::{hook, repository};

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).arg(hook()).env("LC_ALL", "C").output();
    let done = done.unwrap_or_else(|error| panic!("{program} can't be run: {error}"));
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

#[test]
fn the_exported_symbols_are_those_of_the_readme() {
    let listed = output("nm", &["-D", "--defined-only"]);
    let exported: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let readme = std::fs::read_to_string(repository().join("hook/README.md")).unwrap();
    let table = readme.split("| symbol | what it does |").nth(1).expect("the table of symbols in hook/README.md");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).skip(1);
    let documented: BTreeSet<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(exported, documented);
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
