//! Progress of a demo step: on a terminal its name and a bar, elsewhere only its name. Written to
//! standard error, so that standard output has only results.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;

use crate::cli::output::{can_draw, draw, note};

/// How often the progress is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// Cells of a bar, and the columns before it.
const CELLS: usize = 24;
const NAME_WIDTH: usize = 44;

/// Polls the progress of the newest task of a kind.
pub(super) struct StepProgress {
    pub(super) client: reqwest::Client,
    pub(super) base: String,
    pub(super) key: String,
}

impl StepProgress {
    /// Runs the work and shows its progress.
    pub(super) async fn step<T, E>(
        &self,
        name: &str,
        kind: Option<&str>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if !can_draw() {
            note(&format!("{name} …"));
            return work.await;
        }
        let mut work = pin!(work);
        draw(&line(name, 0));
        loop {
            tokio::select! {
                result = &mut work => {
                    let end = if result.is_ok() { line(name, 100) } else { String::new() };
                    draw(&format!("{end}\n"));
                    return result;
                }
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    // The work is not polled meanwhile, which does no harm: it is an HTTP call, and
                    // another async task drives its connection.
                    if let Some(kind) = kind {
                        draw(&line(name, self.progress(kind).await));
                    }
                }
            }
        }
    }

    /// The progress of the newest task, in per cent; 0 while there is none.
    async fn progress(&self, kind: &str) -> u64 {
        let address = format!("{}/v1/tasks?limit=1&kind={kind}", self.base);
        // Only for the bar: if something is wrong, the step itself reports it.
        let Ok(answer) = self.client.get(address).bearer_auth(&self.key).send().await else {
            return 0;
        };
        let list: Value = answer.json().await.unwrap_or_default();
        list["data"][0]["progress"].as_u64().unwrap_or(0)
    }
}

/// The text that replaces the terminal's current line.
fn line(name: &str, per_cent: u64) -> String {
    let per_cent = per_cent.min(100);
    let filled = usize::try_from(per_cent).unwrap_or(0) * CELLS / 100;
    let bar = "█".repeat(filled) + &"░".repeat(CELLS - filled);
    format!("\r\x1b[K{name:NAME_WIDTH$} {bar} {per_cent:>3} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_same_length() {
        let lines = [0, 49, 100, 700].map(|per_cent| line("1/3  Making", per_cent));
        let lengths = lines.each_ref().map(|line| line.chars().count());
        assert_eq!(lengths, [lengths[0]; 4]);
        assert!(lines[0].contains("░") && !lines[0].contains('█'));
        assert!(lines[2].ends_with("100 %") && !lines[2].contains('░'));
        assert_eq!(lines[3], lines[2]);
    }
}
