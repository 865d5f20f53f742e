//! What happened, in numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use simulator::RequestRole;

use crate::callers::Told;
use crate::check::Facts;
use crate::faults::Counts;
use crate::stage::Stage;
use crate::tries::Got;

/// Counted over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) crashes: BTreeMap<String, u64>,
    /// Changes of the providers' settings.
    pub(crate) moves: u64,
    pub(crate) wrong_clocks: u64,
    /// Lives of a copied folder.
    pub(crate) copies: u64,
    pub(crate) intents: u64,
    pub(crate) requests: u64,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) replays: u64,
    /// Tries beyond the first that were led to a task that was there.
    pub(crate) joins: u64,
    pub(crate) unprovable: u64,
    pub(crate) called_off: u64,
    pub(crate) submissions: u64,
    pub(crate) repeats: u64,
    pub(crate) faults: Counts,
    pub(crate) states: BTreeMap<String, u64>,
    pub(crate) checks: u64,
}

impl Totals {
    /// Counts what callers were told.
    pub(crate) fn hear(&mut self, told: &Told) {
        self.intents += 1;
        self.requests += told.tries.len() as u64;
        let mut known: Vec<&str> = Vec::new();
        for one in &told.tries {
            let outcome = match &one.got {
                Got::Unreached => "nobody there".to_owned(),
                Got::Lost => "connection lost".to_owned(),
                Got::HungUp => "hung up".to_owned(),
                Got::Whole(answer) => match &answer.code {
                    None => answer.status.to_string(),
                    Some(code) => format!("{} {code}", answer.status),
                },
            };
            *self.outcomes.entry(outcome).or_default() += 1;
            self.replays += u64::from(one.answer().is_some_and(|answer| answer.replayed));
            if let Some(task) = one.task.as_deref() {
                self.joins += u64::from(known.contains(&task));
                known.push(task);
            }
        }
    }

    /// Counts what is in the books, and lets the journal begin anew.
    pub(crate) fn look(&mut self, facts: &Facts, stage: &Stage) {
        self.checks += 1;
        self.states = facts.states();
        let world = stage.simulator.world();
        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        for one in world.journal() {
            if one.role != RequestRole::Submit {
                continue;
            }
            self.submissions += 1;
            let header = one
                .headers
                .get("idempotency-key")
                .and_then(|key| key.to_str().ok());
            if let Some(key) = header.or_else(|| one.body["idempotency_key"].as_str()) {
                *keys.entry(key.to_owned()).or_default() += 1;
            }
        }
        self.repeats += keys.values().map(|count| count - 1).sum::<u64>();
        world.clear_journal();
    }

    /// A table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let plain = [
            ("rounds", self.rounds),
            ("checks of everything", self.checks),
            ("kill -9", self.kills),
            ("crash points passed", self.crashes.values().sum()),
            ("providers moved", self.moves),
            ("wrong clocks", self.wrong_clocks),
            ("lives of a copy", self.copies),
            ("intents", self.intents),
            ("requests", self.requests),
            ("led to a task that was there", self.joins),
            ("answers replayed", self.replays),
            ("hang-ups that prove nothing", self.unprovable),
            ("called off", self.called_off),
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
