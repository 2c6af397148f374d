//! The page: one file that needs no other, runs no script and asks no server for anything.
//!
//! Whatever comes from outside (names of instruments, paths, settings) goes through [`escape`]; the page's own
//! policy forbids scripts and requests in case something does not.

use super::calendar::moment;
use super::chain::Comparison;
use super::collect::{FoldReport, LOSS, Report, VALIDATION};
use super::control;
use super::figures;
use super::plots::{self, FOLDS, NARROW, Shape, WIDE};
use super::style;
use super::verdict::{Verdict, beside_holding, never_learned, percent, signed_percent};
use foxlaunch_shared::evaluation::{Span, Track};
use std::fmt::Write;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const MANY_INSTRUMENTS: usize = 12;

/// `text` with everything replaced that means something in HTML, inside attributes too.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && !"\n\t".contains(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The whole page. An error only where a plot cannot be drawn.
pub fn page(report: &Report) -> anyhow::Result<String> {
    let title = escape(&report.run);
    let mut body = format!("<h1>{title}</h1>\n{}", about(report));
    if let Some(chained) = &report.chained {
        body += &overall(report, chained)?;
    } else if !report.control.is_empty() || report.pooled.is_some() {
        body += &control_tasks(report);
    } else {
        body += "<div class=\"verdict\"><p>No fold has a test result yet, so there is nothing to judge.</p></div>\n";
    }
    if report.folds.len() > 1 {
        for fold in &report.folds {
            body += &one_fold(fold)?;
        }
    }
    body += &training(report)?;
    body += &caveats(report);
    body += &settings(report);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        style::sheet()
    ))
}

fn control_tasks(report: &Report) -> String {
    let mut html = String::new();
    if let Some(pooled) = &report.pooled {
        html += &format!("<div class=\"verdict\"><p>{}</p></div>\n", escape(&control::pooled_line(pooled)));
    }
    let cells = |cells: &[String]| cells.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>();
    for result in &report.control {
        let head: String = control::COLUMNS.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
        let rows = control::rows(result);
        let rows = rows.iter().map(|(name, row)| format!("<tr><th scope=\"row\">{name}</th>{}</tr>\n", cells(row)));
        html += &format!(
            "<p>{}</p>\n<div class=\"scroll\"><table>\n<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n{}</tbody>\n\
             </table></div>\n",
            escape(&control::about(result)),
            rows.collect::<String>()
        );
    }
    html
}

fn about(report: &Report) -> String {
    let mut parts = Vec::new();
    if let Some(fold) = report.folds.first() {
        parts.push(instruments(&fold.instruments));
    }
    if let Some(config) = &report.config {
        let market = config.environment.name == "market";
        parts.push(match config.data.path.as_str() {
            _ if !market => config.environment.name.clone(),
            "" => "embedded sample".to_owned(),
            path => path.to_owned(),
        });
        parts.push(format!("{} steps{}", config.train.steps, if market { " for each fold" } else { "" }));
        parts.push(match &config.train.seeds[..] {
            [] => format!("seed {}", config.train.seed),
            seeds => format!("{} seeds", seeds.len()),
        });
    }
    parts.push(report.folder.display().to_string());
    format!("<p class=\"about\">{}</p>\n", escape(&parts.join(" · ")))
}

fn instruments(names: &[String]) -> String {
    match names.len() {
        0 => "no instrument".to_owned(),
        n if n > MANY_INSTRUMENTS => {
            format!("{} and {} more", names[..MANY_INSTRUMENTS].join(", "), n - MANY_INSTRUMENTS)
        }
        _ => names.join(", "),
    }
}

fn overall(report: &Report, chained: &Comparison) -> anyhow::Result<String> {
    let one = report.folds.len() == 1;
    let what = if one {
        "One fold's test part: bars that the policy never saw in training.".to_owned()
    } else {
        format!("{} test parts one after another: bars that no policy saw in training.", report.folds.len())
    };
    let starts: Vec<i64> = report.folds.iter().skip(1).map(|fold| fold.result.test.first_ns).collect();
    let mut html = format!("{}<p>{what} {}</p>\n", verdict(chained), escape(&span(&chained.test)));
    for fold in report.unlearned() {
        html += &format!("<p class=\"note\"><strong>{}</strong></p>\n", escape(&never_learned(fold)));
    }
    html += &table(chained);
    if let Some(deflated) = &report.deflated {
        html += &format!("<p>{}</p>\n", escape(&figures::of_trials(deflated)));
    }
    html += &more(chained, true);
    if chained.estimated {
        html += "<p class=\"note\">The range of chance over all folds is estimated from the folds' own ranges, taken as \
                 independent.</p>\n";
    }
    let caption = if one { "" } else { " Upright lines: where a new fold's policy takes over." };
    html += &equity(chained, &starts, caption)?;
    Ok(html)
}

fn one_fold(fold: &FoldReport) -> anyhow::Result<String> {
    let mut html = format!("<h2>Fold {}</h2>\n<p class=\"about\">", fold.fold + 1);
    let parts = [("learned on", &fold.train), ("chosen on", &fold.validation), ("tested on", &fold.result.test)];
    let parts = parts.map(|(what, part)| format!("{what} {}", span(part)));
    writeln!(html, "{}</p>", escape(&parts.join(" · ")))?;
    html += &verdict(&fold.result);
    html += &table(&fold.result);
    html += &more(&fold.result, false);
    html += &equity(&fold.result, &[], "")?;
    Ok(html)
}

fn span(span: &Span) -> String {
    format!("{} to {} ({} bars)", moment(span.first_ns), moment(span.last_ns), span.bars)
}

fn verdict(comparison: &Comparison) -> String {
    let verdict = Verdict::of(comparison);
    let class = match verdict {
        Verdict::Above => " above",
        Verdict::Below => " below",
        Verdict::Within | Verdict::Idle | Verdict::TooShort => "",
    };
    format!(
        "<div class=\"verdict{class}\"><p><strong>{}</strong></p><p>{}</p></div>\n",
        escape(verdict.sentence()),
        escape(&beside_holding(comparison))
    )
}

fn table(comparison: &Comparison) -> String {
    let row = |name: &str, track: &Track| {
        format!(
            "<tr><th scope=\"row\">{name}</th><td>{}</td><td>{:.2}</td><td>{}</td><td>{:.3}</td><td>{}</td><td>{}</td></tr>\n",
            signed_percent(track.total_return),
            track.sharpe,
            percent(track.max_drawdown),
            track.turnover,
            percent(track.time_in_market),
            track.trades
        )
    };
    let random = &comparison.random;
    let ([low, _, high], [worst, _, best]) = (random.total_return, random.sharpe);
    let range = format!(
        "<tr><th scope=\"row\">Random, 5 to 95 %</th><td><span>{}</span> to <span>{}</span></td><td><span>{worst:.2}</span> to \
         <span>{best:.2}</span></td><td></td><td></td><td></td><td></td></tr>\n",
        signed_percent(low),
        signed_percent(high)
    );
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th></th><th scope=\"col\">Return</th><th scope=\"col\">Sharpe</th>\
         <th scope=\"col\">Max drawdown</th><th scope=\"col\">Turnover</th><th scope=\"col\">In market</th>\
         <th scope=\"col\">Trades</th></tr></thead>\n<tbody>\n{}{}{}{range}</tbody>\n</table></div>\n",
        row("Policy", &comparison.policy),
        row("Buy and hold", &comparison.buy_and_hold),
        row("Random, median", &random.median)
    )
}

/// What costs do, and the figures beyond the first table, shown or to be unfolded.
fn more(comparison: &Comparison, open: bool) -> String {
    let open = if open { " open" } else { "" };
    let costs = figures::of_costs(comparison).map(|text| format!("<p>{}</p>\n", escape(&text))).unwrap_or_default();
    let row = |[name, policy, hold]: [String; 3]| {
        let [name, policy, hold] = [escape(&name), escape(&policy), escape(&hold)];
        format!("<tr><th scope=\"row\">{name}</th><td>{policy}</td><td>{hold}</td></tr>\n")
    };
    let rows: String = figures::rows(comparison).into_iter().map(row).collect();
    format!(
        "{costs}<details{open}><summary>More figures</summary><div class=\"scroll\"><table>\n<thead><tr><th></th>\
         <th scope=\"col\">Policy</th><th scope=\"col\">Buy and hold</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\
         </details>\n"
    )
}

fn equity(comparison: &Comparison, starts: &[i64], caption: &str) -> anyhow::Result<String> {
    let keys = [("policy", "policy"), ("hold", "buy and hold"), ("chance", "random, median")];
    let keys = keys.map(|(class, name)| format!("<span class=\"key\"><i class=\"{class}\"></i>{name}</span>")).concat();
    let text = format!(
        "{keys}<br>Equity from 1, net of costs; below, how far it lies under its peak. The bar at the right end: where 90 % \
         of {} random policies ended.{caption}",
        comparison.random.runs
    );
    figure(&text, |shape| plots::equity(comparison, starts, shape))
}

fn training(report: &Report) -> anyhow::Result<String> {
    let loss = report.series(LOSS);
    let validation = report.validation_metric();
    if loss.is_empty() && validation.is_none() {
        return Ok(String::new());
    }
    let mut html = "<h2>Training</h2>\n".to_owned();
    if !loss.is_empty() {
        let text = format!("{}<br>Loss over optimiser updates.", fold_keys(&loss));
        html += &figure(&text, |shape| plots::over_updates("Loss over updates", &loss, false, shape))?;
    }
    if let Some(name) = validation {
        let series = report.series(name);
        let text = format!(
            "{}<br>Metric <em>{}</em>{} over optimiser updates, on the part that serves to choose the checkpoint (ring: the highest). It \
             was chosen for being high, so it is no result.",
            fold_keys(&series),
            escape(name),
            match report.control.is_empty() {
                true if name == VALIDATION => " (log of the final equity, net of costs)",
                false if name == VALIDATION => " (mean return of greedy episodes)",
                _ => "",
            }
        );
        html += &figure(&text, |shape| plots::over_updates("Validation over updates", &series, true, shape))?;
    }
    Ok(html)
}

fn fold_keys(series: &[(u32, Vec<(f64, f64)>)]) -> String {
    let key = |fold: u32| {
        format!("<span class=\"key\"><i class=\"fold{}\"></i>fold {}</span>", fold as usize % FOLDS.len(), fold + 1)
    };
    series.iter().map(|line| key(line.0)).collect()
}

fn figure(caption: &str, draw: impl Fn(Shape) -> anyhow::Result<String>) -> anyhow::Result<String> {
    Ok(format!(
        "<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n<figcaption>{caption}</figcaption>\n</figure>\n",
        draw(WIDE)?,
        draw(NARROW)?
    ))
}

fn caveats(report: &Report) -> String {
    let mut points = Vec::new();
    if let Some(fold) = report.folds.first() {
        points.push(format!(
            "Every trade pays {:.3} % of its value, as the settings say. A large order would also move the price; that is \
             not counted.",
            100.0 * fold.cost_rate
        ));
        points.push(format!(
            "Sharpe ratios are of returns per bar, with {:.1} bars to a year and no interest taken off.",
            fold.periods_per_year
        ));
        points.push(
            "Turnover is the mean traded value per bar in units of equity; in market is the share of bars with a position."
                .to_owned(),
        );
        points.push(
            "Random policies trade as much as the policy and are long, flat and short in the same share of bars, at random \
             moments, on the same bars and at the same costs. Buy and hold is long from the first bar to the last."
                .to_owned(),
        );
    }
    if !report.problems.is_empty() {
        let met: Vec<String> = report.problems.iter().map(|(kind, many)| format!("{kind} {many}")).collect();
        points.push(format!("Met in the data, and left out or mended as the settings say: {}.", met.join(", ")));
    }
    if report.pooled.is_none() {
        points.push("This is one run with one seed; another seed may come to something else.".to_owned());
    }
    points.extend(report.missing.iter().map(|what| format!("Left out: {what}.")));
    let points: String = points.iter().map(|point| format!("<li>{}</li>\n", escape(point))).collect();
    format!("<h2>To keep in mind</h2>\n<ul class=\"note\">\n{points}</ul>\n")
}

fn settings(report: &Report) -> String {
    let files = [("config.toml", &report.config_text), ("plan.json", &report.plan_text)];
    let shown: String = files
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.as_ref()?)))
        .map(|(name, text)| {
            format!("<details><summary>{name}</summary><pre>{}</pre></details>\n", escape(text.trim_end()))
        })
        .collect();
    if shown.is_empty() { shown } else { format!("<h2>Settings</h2>\n{shown}") }
}
