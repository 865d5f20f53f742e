//! How what was seen is told.

use mediagate_telemetry::counters;

/// Memory of this process, in MB.
pub(crate) fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<f64>().unwrap() / 1000.0
}

/// How figures are spread, in seconds.
pub(crate) struct Spread {
    pub mean: f64,
    sorted: Vec<f64>,
}

impl Spread {
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            sorted: figures,
        }
    }

    fn at(&self, percent: usize) -> f64 {
        let place = (self.sorted.len() * percent / 100).min(self.sorted.len() - 1);
        self.sorted[place]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (half, most, all) = (self.at(50), self.at(99), self.at(100));
        write!(
            f,
            "mean {:7.2} s  p50 {half:7.2} s  p99 {most:7.2} s  max {all:7.2} s",
            self.mean
        )
    }
}

/// A histogram of `/metrics`, as an operator sees it: upper bounds and how many
/// are not above them.
pub(crate) struct Histogram(Vec<(f64, u64)>);

impl Histogram {
    pub(crate) fn read(name: &str, label: &str) -> Self {
        let text = counters::metrics_recorder().render();
        let start = format!("mediagate_upstream_{name}_bucket{{");
        let label = format!("=\"{label}\"");
        let buckets = text
            .lines()
            .filter(|line| line.starts_with(&start) && line.contains(&label));
        let bucket = |line: &str| {
            let (bound, count) = line
                .split_once("le=\"")
                .unwrap()
                .1
                .split_once("\"}")
                .unwrap();
            (bound.parse().unwrap(), count.trim().parse().unwrap())
        };
        Self(buckets.map(bucket).collect())
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.last().map_or(0, |last| last.1)
    }

    /// The bound that this share is within.
    fn bound(&self, share: f64) -> f64 {
        let wanted = self.count() as f64 * share;
        let found = self.0.iter().find(|(_, count)| *count as f64 >= wanted);
        found.map_or(f64::INFINITY, |found| found.0)
    }

    pub(crate) fn show(&self, target: f64) -> String {
        let within = self
            .0
            .iter()
            .find(|(bound, _)| *bound >= target)
            .map_or(0, |found| found.1);
        format!(
            "p50 ≤ {} s  p99 ≤ {} s  max ≤ {} s  within {target} s: {:.2} %",
            self.bound(0.5),
            self.bound(0.99),
            self.bound(1.0),
            within as f64 * 100.0 / self.count() as f64
        )
    }
}
