//! The page's style: system fonts, one column, tables that scroll on a phone, plain on paper.

use super::plots;
use plotters::style::RGBColor;

const RULES: &str = "
*{box-sizing:border-box}
body{margin:0;background:#fff;color:#1c1c1c;font:16px/1.5 system-ui,sans-serif}
main{max-width:820px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:40px 0 8px;padding-top:12px;border-top:1px solid #ddd}
p{margin:8px 0}
.about,figcaption,.note{color:#555;font-size:.9rem}
.about,.note,li{overflow-wrap:anywhere}
.verdict{border-left:4px solid #888;background:#f5f5f3;padding:10px 14px;margin:14px 0}
.verdict p{margin:2px 0}
.verdict.above{border-color:#2f8f4e}
.verdict.below{border-color:#c24a1d}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:5px 8px;text-align:right;border-bottom:1px solid #e4e4e4;vertical-align:top}
th:first-child,td:first-child{text-align:left;padding-left:0}
thead th{font-weight:600;color:#555}
tbody th{font-weight:400}
tbody tr:first-child th,tbody tr:first-child td{font-weight:600}
details tbody tr:first-child th,details tbody tr:first-child td{font-weight:400}
td span,tbody th{white-space:nowrap}
figure{margin:18px 0}
svg{display:block;width:100%;height:auto}
.narrow{display:none}
.key{display:inline-block;margin-right:14px}
.key i{display:inline-block;width:18px;height:3px;margin-right:6px;vertical-align:middle}
pre{overflow-x:auto;background:#f5f5f3;padding:12px;font-size:.8rem;line-height:1.4}
summary{cursor:pointer;padding:4px 0}
@media (max-width:600px){.wide{display:none}.narrow{display:block}th,td{padding:5px 3px}
table{font-size:.76rem}tbody th{white-space:normal}h2{margin-top:32px}}
@media print{main{max-width:none;padding:0}h2{break-after:avoid}figure,table,.verdict{break-inside:avoid}
.wide{display:block}.narrow{display:none}.verdict,pre{background:none;border:1px solid #aaa}pre{white-space:pre-wrap}
details::details-content{content-visibility:visible;display:block}}
";

/// All rules, with the plots' colours as classes: `policy`, `hold`, `chance`, `fold0` and on.
pub(super) fn sheet() -> String {
    let hex = |colour: RGBColor| format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2);
    let mut sheet = RULES.trim_start().to_owned();
    for (name, colour) in [("policy", plots::POLICY), ("hold", plots::HOLD), ("chance", plots::CHANCE)] {
        sheet += &format!(".key .{name}{{background:{}}}\n", hex(colour));
    }
    for (fold, colour) in plots::FOLDS.into_iter().enumerate() {
        sheet += &format!(".key .fold{fold}{{background:{}}}\n", hex(colour));
    }
    sheet
}
