//! What is written about metrics outside the program: their labels in `docs/operations.md`, and
//! all names and labels in the board and the alert rules of `deploy/`. The test reads only the
//! parts of a query that this needs: selectors between braces, and lists of labels after `by`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use mediagate_telemetry::counters::{METRICS, MetricKind};

/// Labels that Prometheus adds when it scrapes, and the label of a histogram's buckets.
const PROMETHEUS_LABELS: [&str; 3] = ["instance", "job", "le"];

fn repository() -> PathBuf {
    super::root().join("../..")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// The labels of each metric, as the recording macros name them.
fn recorded_metrics() -> BTreeMap<String, BTreeSet<String>> {
    let paths = super::files(&repository().join("crates"), "rs").into_iter();
    let paths = paths.filter(|path| path.components().any(|part| part.as_os_str() == "src"));
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for kind in ["counter!(", "gauge!(", "histogram!("] {
            for (at, _) in text.match_indices(kind) {
                if text[..at].ends_with(is_word) {
                    continue;
                }
                let call = until_closed(&text[at + kind.len()..]);
                let Some((name, recorded_labels)) =
                    call.trim_start().strip_prefix('"').map(parse_recording)
                else {
                    continue;
                };
                let first = labels
                    .entry(name.clone())
                    .or_insert_with(|| recorded_labels.clone());
                assert_eq!(
                    *first,
                    recorded_labels,
                    "{name} has other labels in {}",
                    path.display()
                );
            }
        }
    }
    labels
}

/// The text up to the end of the parenthesis that was opened before it.
fn until_closed(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[..end.unwrap()]
}

/// The name and labels in the arguments of a recording macro, after their first quote.
fn parse_recording(arguments: &str) -> (String, BTreeSet<String>) {
    let (name, rest) = arguments.split_once('"').unwrap();
    let quoted: Vec<&str> = rest.split('"').collect();
    let labels = quoted
        .windows(2)
        .filter(|pair| pair[1].trim_start().starts_with("=>"));
    (
        name.to_owned(),
        labels.map(|pair| pair[0].to_owned()).collect(),
    )
}

#[test]
fn the_metrics_document_has_the_labels_of_the_code() {
    let coded = recorded_metrics();
    let text = std::fs::read_to_string(repository().join("docs/operations.md")).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `mediagate_"));
    let mut compared = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        let documented: BTreeSet<String> = cells[4]
            .split(',')
            .map(|label| label.trim().trim_matches('`').to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        let expected = coded.get(name);
        let expected = expected.unwrap_or_else(|| panic!("nothing records {name}"));
        assert_eq!(documented, *expected, "docs/operations.md: {name}");
        compared += 1;
    }
    assert_eq!(compared, METRICS.len());
}

/// An expression with its legend, or a rule with its annotations.
struct Query {
    location: String,
    text: String,
}

/// The metric of a series. The name of a histogram's series has an ending.
fn metric_of(series: &str) -> Option<&'static str> {
    METRICS.iter().find_map(|(name, sort, ..)| {
        let ending = series.strip_prefix(name)?;
        let fits = match sort {
            MetricKind::Counter | MetricKind::Gauge => ending.is_empty(),
            MetricKind::Histogram => ["_bucket", "_count", "_sum"].contains(&ending),
        };
        fits.then_some(*name)
    })
}

impl Query {
    fn series(&self) -> impl Iterator<Item = (&str, &str)> {
        let matches = self.text.match_indices("mediagate_");
        let matches = matches.filter(|(index, _)| !self.text[..*index].ends_with(is_word));
        matches.map(|(index, _)| {
            let name = word(&self.text[index..]);
            (name, &self.text[index + name.len()..])
        })
    }

    /// The labels in the query, each with the metric that must have it, if one is named.
    fn labels(&self) -> Vec<(Option<&str>, &str)> {
        let mut labels = Vec::new();
        for (name, rest) in self.series() {
            let selector = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let matchers = selector.map_or("", |(matchers, _)| matchers);
            for matcher in matchers
                .split(',')
                .map(str::trim)
                .filter(|matcher| !matcher.is_empty())
            {
                labels.push((Some(name), word(matcher)));
            }
            // label_values(metric, label)
            if let Some(rest) = rest.strip_prefix(", ").filter(|rest| rest.ends_with(')')) {
                labels.push((Some(name), word(rest)));
            }
        }
        for clause in ["by (", "on (", "without ("] {
            for list in self.text.split(clause).skip(1) {
                let (list, _) = list.split_once(')').unwrap();
                labels.extend(list.split(',').map(|label| (None, label.trim())));
            }
        }
        for template in ["$labels.", "{{"] {
            let after = self.text.split(template).skip(1);
            labels.extend(
                after
                    .map(word)
                    .filter(|label| !label.is_empty())
                    .map(|label| (None, label)),
            );
        }
        labels
    }

    /// Appends what is wrong with it to `wrong`.
    fn check(&self, coded: &BTreeMap<String, BTreeSet<String>>, wrong: &mut String) {
        let mut known_labels: BTreeSet<&str> = PROMETHEUS_LABELS.into();
        for (series, _) in self.series() {
            match metric_of(series) {
                Some(name) => known_labels.extend(coded[name].iter().map(String::as_str)),
                None => drop(writeln!(wrong, "{}: there is no {series}", self.location)),
            }
        }
        for (series, label) in self.labels() {
            let labels = series.and_then(metric_of).map(|name| &coded[name]);
            let is_known = PROMETHEUS_LABELS.contains(&label)
                || labels.map_or(known_labels.contains(label), |labels| {
                    labels.contains(label)
                });
            if !is_known {
                let _ = writeln!(wrong, "{}: nothing has the label {label}", self.location);
            }
        }
    }
}

/// Every panel's target and every variable of a board.
fn board_queries(board: &serde_json::Value) -> Vec<Query> {
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = ["expr", "legendFormat"].map(|key| target[key].as_str().unwrap());
            let location = panel["title"].as_str().unwrap().to_owned();
            queries.push(Query {
                location,
                text: text.join(" "),
            });
        }
    }
    for variable in board["templating"]["list"].as_array().unwrap() {
        if let Some(text) = variable["query"]["query"].as_str() {
            let location = variable["name"].as_str().unwrap().to_owned();
            queries.push(Query {
                location,
                text: text.to_owned(),
            });
        }
    }
    queries
}

/// Every alert rule, with its annotations.
fn rule_queries(text: &str) -> Vec<Query> {
    let rules = text.split("- alert: ").skip(1);
    let rules = rules.map(|rule| Query {
        location: word(rule).to_owned(),
        text: rule.to_owned(),
    });
    rules.collect()
}

#[test]
fn the_board_and_the_alerts_use_existing_metrics_and_labels() {
    let deploy = repository().join("deploy");
    let mut queries = rule_queries(&std::fs::read_to_string(deploy.join("alerts.yaml")).unwrap());
    let boards = super::files(&deploy.join("grafana"), "json");
    for board in &boards {
        let board = std::fs::read_to_string(board).unwrap();
        queries.extend(board_queries(&serde_json::from_str(&board).unwrap()));
    }
    assert!(
        queries.len() > 40,
        "only {} queries were read",
        queries.len()
    );
    let (coded, mut wrong) = (recorded_metrics(), String::new());
    for query in &queries {
        query.check(&coded, &mut wrong);
    }
    assert!(wrong.is_empty(), "deploy/:\n{wrong}");

    let used: BTreeSet<&str> = queries
        .iter()
        .flat_map(Query::series)
        .filter_map(|(series, _)| metric_of(series))
        .collect();
    let unused: Vec<&str> = METRICS
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| !used.contains(name))
        .collect();
    assert!(
        unused.is_empty(),
        "neither a board nor an alert shows {unused:?}"
    );
}

/// A counter appears with its first event, which `increase` alone does not see.
#[test]
fn alerts_see_the_first_event_of_a_counter() {
    let text = std::fs::read_to_string(repository().join("deploy/alerts.yaml")).unwrap();
    let mut checked = 0;
    for rule in rule_queries(&text) {
        let counters = rule.text.split("increase(").skip(1).map(word);
        // This one is set from the start, to 0.
        for name in counters.filter(|name| *name != "mediagate_log_lines_lost_total") {
            let location = &rule.location;
            let sees_first = rule.text.contains(&format!("unless {name} offset"));
            assert!(sees_first, "{location} misses the first event of {name}");
            checked += 1;
        }
    }
    assert!(checked > 4, "only {checked} uses of `increase` were read");
}

#[test]
fn a_wrong_name_or_label_is_found() {
    let coded = recorded_metrics();
    for (text, mistakes) in [
        (
            r#"rate(mediagate_upstream_calls_total{provider="a", stage=~"b"}[5m]) {{stage}}"#,
            0,
        ),
        (r#"mediagate_upstream_calls{provider="a"}"#, 2),
        (r#"mediagate_tasks_ended_total{provider="a"}"#, 1),
        (
            "sum by (le, models) (rate(mediagate_upstream_settle_seconds_bucket[5m]))",
            1,
        ),
        ("mediagate_upstream_settle_seconds", 1),
        ("mediagate_route_open {{models}} {{ $labels.stage }}", 2),
        ("label_values(mediagate_route_open, models)", 1),
    ] {
        let (location, mut wrong) = (String::new(), String::new());
        let query = Query {
            location,
            text: text.to_owned(),
        };
        query.check(&coded, &mut wrong);
        assert_eq!(wrong.lines().count(), mistakes, "{text}: {wrong}");
    }
}
