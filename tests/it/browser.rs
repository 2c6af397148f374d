//! The report in a real browser, where there is one: a page that is whole by itself, whatever names its data have.

use crate::session::Session;
use std::process::Command;

/// A name that would be an image, which asks for another page and runs a script, if it were not written out.
const NAME: &str = "<img src=http://127.0.0.1:9/x onerror=alert(1)>";

fn browser() -> Option<&'static str> {
    let there = |name: &&str| {
        let found =
            std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
        found.into_iter().any(|folder| folder.join(name).is_file())
    };
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].into_iter().find(there)
}

#[test]
fn the_report_is_one_page_that_asks_for_nothing_and_runs_nothing() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no Chromium is here to show the report");
        return;
    };
    let session = Session::new();
    let mut text = String::from("time,symbol,open,high,low,close,volume\n");
    let mut price = 100.0f64;
    for day in 0..400i64 {
        let open = price;
        price *= 1.0 + 0.01 * (day as f64 * 0.7).sin();
        let (high, low, at) = (open.max(price) * 1.005, open.min(price) * 0.995, 1_400_000_000 + day * 86_400);
        text += &format!("{at},{NAME},{open:.6},{high:.6},{low:.6},{price:.6},1\n");
    }
    session.write("bars.csv", text);
    session.run(&format!("--cpu --nproc 1 {} --data bars.csv --out run", crate::training::SHORT)).assert_code(0);
    let page = session.run_dir("run").report_html();
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["120", browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
    command.args(["--no-first-run", "--disable-dev-shm-usage", "--enable-logging=stderr", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(format!("file://{}", page.display()));
    let output = command.output().unwrap();
    let (dom, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{said}", output.status);
    // scripts that fail, and requests that the page's policy forbids, are told on the console
    let told: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(told.is_empty(), "{told:?}");
    for element in ["<img", "<script", "<link", "<iframe", "onerror=\""] {
        assert!(!dom.contains(element), "{element} in the page");
    }
    assert!(dom.contains("&lt;img src=http://127.0.0.1:9/x onerror=alert(1)&gt;"), "the name is written out");
    assert!(dom.matches("<svg").count() >= 4 && dom.matches("<polyline").count() >= 6, "plots are there");
    assert!(dom.contains("</html>"));
}
