//! What happened, in numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use simulator::RequestRole;

use crate::callers::CallerHistory;
use crate::check::Facts;
use crate::faults::Counts;
use crate::stage::Stage;
use crate::tries::TryOutcome;

/// Counted over all rounds, except for `states`.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) crashes: BTreeMap<String, u64>,
    /// How often the settings changed the providers' addresses and keys.
    pub(crate) moves: u64,
    /// How often the settings turned idempotency keys on and off.
    pub(crate) flips: u64,
    /// Equal orders of two accounts at once.
    pub(crate) twins: u64,
    pub(crate) wrong_clocks: u64,
    /// Runs of a copied folder.
    pub(crate) copies: u64,
    pub(crate) intents: u64,
    pub(crate) requests: u64,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) replays: u64,
    /// Tries beyond the first that joined an existing task.
    pub(crate) joins: u64,
    pub(crate) unprovable: u64,
    pub(crate) cancelled_tasks: u64,
    /// Orders that were approved or rejected.
    pub(crate) decisions: u64,
    pub(crate) submissions: u64,
    pub(crate) repeats: u64,
    pub(crate) faults: Counts,
    /// The states of all tasks at the last check.
    pub(crate) states: BTreeMap<String, u64>,
    pub(crate) checks: u64,
}

impl Totals {
    /// Counts what a caller received.
    pub(crate) fn count_history(&mut self, history: &CallerHistory) {
        self.intents += 1;
        self.requests += history.tries.len() as u64;
        let mut tasks: Vec<&str> = Vec::new();
        for attempt in &history.tries {
            let outcome = match &attempt.outcome {
                TryOutcome::Unreached => "unreachable".to_owned(),
                TryOutcome::Lost => "connection lost".to_owned(),
                TryOutcome::HungUp => "hung up".to_owned(),
                TryOutcome::Answered(answer) => match &answer.code {
                    None => answer.status.to_string(),
                    Some(code) => format!("{} {code}", answer.status),
                },
            };
            *self.outcomes.entry(outcome).or_default() += 1;
            self.replays += u64::from(attempt.answer().is_some_and(|answer| answer.replayed));
            if let Some(task) = attempt.task.as_deref() {
                self.joins += u64::from(tasks.contains(&task));
                tasks.push(task);
            }
        }
    }

    /// Counts what is recorded, and clears the journal.
    pub(crate) fn count_facts(&mut self, facts: &Facts, stage: &Stage) {
        self.checks += 1;
        self.states = facts.states();
        let world = stage.simulator.world();
        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        for request in world.journal() {
            if request.role != RequestRole::Submit {
                continue;
            }
            self.submissions += 1;
            let header = request
                .headers
                .get("idempotency-key")
                .and_then(|key| key.to_str().ok());
            if let Some(key) = header.or_else(|| request.body["idempotency_key"].as_str()) {
                *keys.entry(key.to_owned()).or_default() += 1;
            }
        }
        self.repeats += keys.values().map(|count| count - 1).sum::<u64>();
        world.clear_journal();
    }

    /// All numbers as a table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let plain = [
            ("rounds", self.rounds),
            ("checks of everything", self.checks),
            ("kill -9", self.kills),
            ("crash points passed", self.crashes.values().sum()),
            ("providers moved", self.moves),
            ("options flipped", self.flips),
            ("equal orders at once", self.twins),
            ("wrong clocks", self.wrong_clocks),
            ("runs of a copy", self.copies),
            ("intents", self.intents),
            ("requests", self.requests),
            ("joined an existing task", self.joins),
            ("answers replayed", self.replays),
            ("hang-ups that prove nothing", self.unprovable),
            ("cancelled", self.cancelled_tasks),
            ("approved or rejected", self.decisions),
            ("submissions upstream", self.submissions),
            ("repeated with their key", self.repeats),
        ];
        for (name, count) in plain {
            let _ = writeln!(text, "  {name:<30} {count:>7}");
        }
        let groups = [
            ("tasks", &self.states),
            ("answers", &self.outcomes),
            ("crash points", &self.crashes),
        ];
        for (group, counts) in groups {
            for (name, count) in counts {
                let _ = writeln!(text, "  {:<30} {count:>7}", format!("{group}: {name}"));
            }
        }
        for (name, count) in &self.faults {
            let _ = writeln!(text, "  {:<30} {count:>7}", format!("faults: {name}"));
        }
        text + "  violations                           0\n"
    }
}
