//! `foxlaunch data`: one object or one page for each file, or one line that names it.

use crate::session::Session;
use serde_json::Value;

const TABLE: &str = "time,symbol,open,high,low,close,volume\n2024-03-04 14:30,A,1,2,1,2,5\n2024-03-04 14:31,A,2,3,2,3,5\n\
                     2024-03-04 14:33,A,3,4,3,4,5\n2024-03-04 14:30,B,9,9,9,9,0\n";

#[test]
fn a_file_is_one_object() {
    let session = Session::new();
    session.write("bars.csv", TABLE);
    let ended = session.run("data --json bars.csv");
    ended.assert_code(0);
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    for (key, expected) in [
        ("file", Value::from("bars.csv")),
        ("format", "csv".into()),
        ("schema", "ohlcv".into()),
        ("records", 4.into()),
        ("bars", 4.into()),
        ("first", "2024-03-04T14:30:00Z".into()),
        ("last", "2024-03-04T14:33:00Z".into()),
    ] {
        assert_eq!(object[key], expected, "{key}");
    }
    assert_eq!(object["instruments"], serde_json::json!(["A", "B"]));
    assert_eq!(object["problems"], serde_json::json!({"gap": 1}));
    assert_eq!(ended.err, "");
    session.assert_clean();
}

#[test]
fn a_page_for_a_person_shows_what_there_is() {
    let session = Session::new();
    session.write("bars.csv", TABLE);
    let ended = session.run("data bars.csv");
    ended.assert_code(0);
    for word in ["bars.csv", "csv ohlcv, 4 records", "4 of 1 m", "3 bars on 1 days, 1 gaps", "▁", "gap 1"] {
        assert!(ended.out.contains(word), "{word} in\n{}", ended.out);
    }
}

#[test]
fn what_is_refused_is_one_line_with_its_code_and_the_rest_is_shown() {
    let session = Session::new();
    session.write("good.csv", TABLE);
    session.write("bad.csv", format!("{TABLE}2024-03-04 14:34,A,1,1,2,1,1\n2024-03-04 14:35,A,0,1,0,1,1\n"));
    session.write("empty.csv", "");
    let ended = session.run("data --json bad.csv good.csv");
    ended.assert_code(65);
    assert_eq!((ended.out.lines().count(), ended.err.lines().count()), (1, 1), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("bad.csv, row at line 6: A: high 1 is below low 2"), "{}", ended.err);
    assert!(ended.err.contains("high_below_low 1") && ended.err.contains("zero_price 1"), "{}", ended.err);
    let ended = session.run("data --json bad.csv --set cleaning.high_below_low=drop --set cleaning.zero_price=repair");
    ended.assert_code(0);
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(object["bars"], 5);
    assert_eq!(object["problems"], serde_json::json!({"gap": 2, "high_below_low": 1, "zero_price": 1}));
    for (words, code, why) in [
        ("data --json empty.csv", 66, "empty.csv: it is empty"),
        ("data --json none.csv", 66, "none.csv: there is no such file"),
        ("data --json *.zip", 66, "no file fits this pattern"),
        ("data --set cleaning.gap=maybe good.csv", 78, "must be error or drop or repair"),
        ("data", 2, "FILE"),
    ] {
        let ended = session.run(words);
        ended.assert_code(code);
        assert!(ended.err.contains(why), "{words}: {}", ended.err);
    }
    session.assert_clean();
}
