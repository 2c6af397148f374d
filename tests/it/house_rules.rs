//! Rules that the source keeps: sizes, names, and who may use whom.

use crate::source::{entries, files, root, shipped, text};
use std::path::Path;

const LONGEST: usize = 500;

/// Each module of the launcher and what it may use. `lib.rs` and `main.rs` are maps and may name all.
const LAUNCHER: &[(&str, &[&str])] = &[
    ("cli", &["commands", "devices", "logs", "metrics", "plan", "process"]),
    (
        "commands",
        &[
            "cli",
            "devices",
            "guardian",
            "plan",
            "process",
            "registry",
            "report",
            "screen",
            "secrets",
            "supervisor",
            "tune",
        ],
    ),
    ("devices", &["process"]),
    ("guardian", &["process"]),
    ("logs", &[]),
    ("metrics", &["devices", "process"]),
    ("plan", &["cli", "devices", "logs", "process", "secrets"]),
    ("process", &[]),
    ("registry", &["process"]),
    ("rendezvous", &["process"]),
    ("report", &[]),
    // The table at the end is made from the report.
    ("screen", &["logs", "process", "report", "secrets"]),
    ("secrets", &[]),
    // Before a restart it looks whether the devices are there and free.
    ("supervisor", &["devices", "logs", "metrics", "plan", "process", "rendezvous", "screen", "secrets"]),
    ("tune", &["plan", "supervisor"]),
];

/// Each module of the worker and what it may use; `jobs` joins them all.
const WORKER: &[(&str, &[&str])] = &[
    ("collectives", &[]),
    ("world", &["collectives"]),
    // Normal numbers are the device's too, to the bit.
    ("seed", &["kernels"]),
    ("kernels", &[]),
    ("vectors", &[]),
    ("parallel", &["collectives", "kernels", "optimizer", "vectors", "world"]),
    ("optimizer", &["collectives", "kernels", "vectors", "world"]),
    // It stores what the two own: moments, and variables in the order of the flat buffer.
    ("checkpoint", &["collectives", "optimizer", "parallel", "vectors", "world"]),
    ("metrics", &["collectives", "world"]),
    // Sharding needs a rank and a size, not the world.
    ("data", &["seed"]),
    ("environments", &["data", "seed"]),
    ("evaluate", &["data", "environments", "seed"]),
    ("replay", &["environments", "kernels", "seed", "vectors"]),
    ("networks", &["kernels", "seed"]),
    (
        "trainers",
        &[
            "checkpoint",
            "collectives",
            "data",
            "environments",
            "evaluate",
            "kernels",
            "metrics",
            "networks",
            "optimizer",
            "parallel",
            "replay",
            "seed",
            "vectors",
            "world",
        ],
    ),
    ("jobs", &["checkpoint", "data", "environments", "evaluate", "networks", "replay", "seed", "trainers", "world"]),
];

/// Packages that each package must not depend on, by how their names begin.
const PACKAGES: &[(&str, &[&str])] = &[
    ("shared", &["foxlaunch", "candle", "cudarc", "nix", "ipc-channel"]),
    ("launcher", &["foxlaunch-worker", "candle", "cudarc", "dbn", "tokio", "safetensors"]),
    ("worker", &["foxlaunch", "tokio"]),
];

fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let counted = |path: &Path| ["rs", "cu", "cuh", "sh"].iter().any(|end| path.extension().is_some_and(|e| e == *end));
    let all: Vec<_> = files("").into_iter().filter(|path| counted(path)).collect();
    assert!(all.len() > 20, "only {} files were found", all.len());
    let too_long = |path: &Path| {
        let lines = text(path).lines().count();
        (lines > LONGEST).then(|| format!("{} has {lines} lines: split it, {LONGEST} is the limit", path.display()))
    };
    none(all.iter().filter_map(|path| too_long(path)).collect());
}

#[test]
fn nothing_is_left_undone_and_no_test_is_ignored() {
    // Put together here so that this file does not contain them.
    let forbidden =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!("), concat!("#[ig", "nore")];
    let faults = rust_files("").into_iter().flat_map(|path| {
        let text = text(&path);
        let found = forbidden.into_iter().filter(move |word| text.contains(word));
        found.map(move |word| format!("{path} contains {word}")).collect::<Vec<_>>()
    });
    none(faults.collect());
}

#[test]
fn names_say_what_is_inside() {
    let empty = ["base", "imp", "utils", "util", "common", "helpers", "helper", "manager", "misc"];
    let says_nothing =
        |path: &String| path.split('/').any(|part| empty.contains(&part.strip_suffix(".rs").unwrap_or(part)));
    let faults = rust_files("").into_iter().filter(says_nothing).map(|path| format!("{path}: its name says nothing"));
    none(faults.collect());
}

#[test]
fn modules_use_only_what_they_may() {
    for (package, table) in [("launcher", LAUNCHER), ("worker", WORKER)] {
        let modules = entries(&root().join(package).join("src"));
        let names = modules.iter().map(|(name, _)| name.strip_suffix(".rs").unwrap_or(name));
        let unknown = names
            .filter(|name| !["lib", "main", "main_cuda"].contains(name))
            .filter(|name| table.iter().all(|(known, _)| known != name))
            .map(|name| format!("{package}/src/{name} is not in the table of {}: say there what it may use", file!()));
        none(unknown.collect());

        let faults =
            rust_files(&format!("{package}/src")).into_iter().flat_map(|path| arrows(table, &path, &text(&path)));
        none(faults.collect());
    }
}

#[test]
fn networks_know_no_world() {
    let mentions = |path: &String| shipped(&text(path)).contains("World");
    let faults = rust_files("worker/src/networks").into_iter().filter(mentions);
    none(faults.map(|path| format!("{path} mentions World: a network computes, its trainer joins")).collect());
}

#[test]
fn packages_depend_only_on_what_they_may() {
    for (package, forbidden) in PACKAGES {
        let manifest: toml::Table = text(format!("{package}/Cargo.toml")).parse().expect("a manifest is TOML");
        let names = dependencies(&manifest);
        assert!(!names.is_empty(), "{package} has dependencies");
        let faults = names.iter().filter(|name| {
            let shared = name.as_str() == "foxlaunch-shared";
            !(shared && *package != "shared") && forbidden.iter().any(|start| name.starts_with(start))
        });
        none(faults.map(|name| format!("{package}/Cargo.toml: {package} must not depend on {name}")).collect());
    }
}

#[test]
fn the_scanner_sees_every_way_to_name_a_module() {
    let seen = |path: &str, source: &str| arrows(WORKER, path, source).len();
    assert_eq!(seen("worker/src/data/folds.rs", "use crate::seed::Streams;"), 0);
    assert_eq!(seen("worker/src/data/folds.rs", "use crate::world::World;"), 1);
    assert_eq!(seen("worker/src/data/folds.rs", "let w = crate::world::World::join();"), 1);
    assert_eq!(seen("worker/src/data/folds.rs", "use crate::{seed, world::{World, Line}, collectives};"), 2);
    assert_eq!(seen("worker/src/data/folds.rs", "use super::super::world::World;"), 1);
    assert_eq!(seen("worker/src/data/readers/csv.rs", "use super::super::world::World;"), 0, "that is data::world");
    assert_eq!(seen("worker/src/data/mod.rs", "pub(crate) use super::world;"), 1);
    assert_eq!(seen("worker/src/data/folds.rs", "//! See [`crate::world`].\n// crate::world"), 0);
    assert_eq!(seen("worker/src/data/folds.rs", "#[cfg(test)]\nmod tests {\n use crate::world::World;\n}"), 0);
    assert_eq!(seen("worker/src/kernels/linear.rs", "use crate::networks::parts;"), 1);
    assert_eq!(seen("worker/src/lib.rs", "pub use crate::world::World;"), 0, "lib.rs is a map");
}

fn rust_files(folder: &str) -> Vec<String> {
    let is_rust = |path: &Path| path.extension().is_some_and(|end| end == "rs");
    files(folder).iter().filter(|path| is_rust(path)).map(|path| path.to_string_lossy().into_owned()).collect()
}

/// What `path` (relative to the workspace) uses against `table`.
fn arrows(table: &[(&str, &[&str])], path: &str, source: &str) -> Vec<String> {
    let inside: Vec<&str> = path.split('/').skip_while(|part| *part != "src").skip(1).collect();
    let module = inside[0].strip_suffix(".rs").unwrap_or(inside[0]);
    let file = inside[inside.len() - 1];
    let Some((_, allowed)) = table.iter().find(|(name, _)| *name == module) else { return Vec::new() };
    if file.ends_with("tests.rs") {
        return Vec::new();
    }
    // How many times `super::` leads from this file's module to the crate.
    let depth = inside.len() - usize::from(file == "mod.rs");
    let code = shipped(source);
    let mut used = named_after(&code, "crate::");
    used.extend(named_after(&code, &"super::".repeat(depth)));
    used.sort();
    used.dedup();
    let known = |name: &String| table.iter().any(|(other, _)| other == name);
    let may_not = |name: &String| name != module && !allowed.contains(&name.as_str());
    let faults = used.into_iter().filter(|name| known(name) && may_not(name));
    faults.map(|name| format!("{path}: {module} must not use {name}")).collect()
}

/// The first names of all paths in `code` that begin with `start`, those in braces too.
fn named_after(code: &str, start: &str) -> Vec<String> {
    let word =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = Vec::new();
    for (at, _) in code.match_indices(start) {
        // `super::super::x` ends in `super::x`, and `foxlaunch_crate::x` in `crate::x`: neither begins here.
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + start.len()..];
        let Some(group) = rest.trim_start().strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let (mut nesting, mut begins) = (0, true);
        for (place, c) in group.char_indices() {
            match c {
                '{' => nesting += 1,
                '}' if nesting == 0 => break,
                '}' => nesting -= 1,
                ',' if nesting == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    names.push(word(&group[place..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The names of all packages in a manifest's tables of dependencies, those for one target or for tests too.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            names.extend(
                table
                    .iter()
                    .map(|(name, entry)| entry.get("package").and_then(toml::Value::as_str).unwrap_or(name).to_owned()),
            );
        } else if key == "target" {
            names.extend(table.values().filter_map(toml::Value::as_table).flat_map(dependencies));
        }
    }
    names
}
