//! A gateway under torture, and what happens to it: it dies, comes back, and in
//! between comes to rest so that everything can be checked.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use simulator::{JobPlan, RequestRole};
use tokio::time::Instant;

use crate::callers::{Caller, Seen, Told};
use crate::check::{self, Facts, Violations, views::Views};
use crate::dice::Dice;
use crate::faults;
use crate::intent::{Intent, Way};
use crate::program::{At, CLOCKS, Server, Start};
use crate::stage::{Key, Stage, client};
use crate::totals::Totals;

/// How long it may take until every task has ended, once nothing goes wrong.
pub(crate) const REST: Duration = Duration::from_mins(3);
/// How long a copy lives: long enough to take everything up that it would.
const COPY_LIVES: Duration = Duration::from_secs(2);
/// What `abort` ends a process with.
const ABORTED: i32 = 6;

/// A gateway that lives, dies and lives again.
pub(crate) struct Run {
    pub(crate) stage: Stage,
    pub(crate) server: Option<Server>,
    /// Where the running process is to die by itself.
    pub(crate) armed: Option<String>,
    pub(crate) dice: Dice,
    pub(crate) told: Vec<Told>,
    pub(crate) seen: Seen,
    pub(crate) called_off: Vec<(String, String)>,
    pub(crate) totals: Totals,
    pub(crate) http: reqwest::Client,
    pub(crate) found: Violations,
    /// The last errors that the program logged: they say why something was found.
    errors: VecDeque<String>,
    /// How jobs go when nothing goes wrong.
    pub(crate) calm: JobPlan,
    /// How wrong the clock of the next process is.
    pub(crate) clock: Option<&'static str>,
    /// Whether clocks are wrong now and then.
    pub(crate) clocks: bool,
    /// Whether callers that count their tries send some twice.
    pub(crate) twins: bool,
}

/// How many logged errors are kept.
const ERRORS: usize = 50;

impl Run {
    pub(crate) fn new(stage: Stage, dice: Dice) -> Self {
        Self {
            stage,
            server: None,
            armed: None,
            dice,
            told: Vec::new(),
            seen: Seen::default(),
            called_off: Vec::new(),
            totals: Totals::default(),
            http: client(),
            found: Violations::default(),
            errors: VecDeque::new(),
            calm: JobPlan::default(),
            clock: None,
            clocks: false,
            twins: true,
        }
    }

    /// Starts the gateway, to die at a point; one that dies on its way up is started
    /// again, unarmed.
    pub(crate) async fn bring_up(&mut self, point: Option<String>) {
        self.armed.clone_from(&point);
        self.bring_up_at(point.map(At::Crash)).await;
    }

    /// Starts the gateway, to do something to itself at a point.
    pub(crate) async fn bring_up_at(&mut self, at: Option<At>) {
        let start = Start {
            at,
            clock: self.clock,
        };
        let server = match self.stage.start(&start).await {
            Ok(server) => server,
            Err(died) => {
                self.died(died.status, &died.log);
                self.stage.must_start().await
            }
        };
        self.stage.door.open(&server.base);
        self.server = Some(server);
    }

    /// A process ended that nobody killed.
    pub(crate) fn died(&mut self, status: ExitStatus, log: &str) {
        self.stage.door.close();
        self.read_log(log);
        let point = self.armed.take();
        match point {
            Some(point) if status.signal() == Some(ABORTED) => {
                *self.totals.crashes.entry(point).or_default() += 1;
            }
            point => self.found.add(format!(
                "the process ended by itself ({status}, to die at {point:?}):\n{log}"
            )),
        }
    }

    /// Whether the process ended by itself; if so, it is gone.
    pub(crate) fn has_died(&mut self) -> bool {
        let Some(server) = &mut self.server else {
            return true;
        };
        let Some(status) = server.exit_status() else {
            return false;
        };
        if let Some(server) = self.server.take() {
            self.died(status, &server.kill());
        }
        true
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if self.has_died() {
            return;
        }
        self.stage.door.close();
        if let Some(server) = self.server.take() {
            self.read_log(&server.kill());
        }
        self.armed = None;
        self.totals.kills += 1;
    }

    pub(crate) fn read_log(&mut self, log: &str) {
        for held in log
            .lines()
            .filter(|line| line.contains("is a copy or a restored"))
        {
            println!("{held}");
        }
        let errors = log
            .lines()
            .filter(|line| line.contains("\"level\":\"ERROR\""));
        self.errors.extend(errors.map(ToOwned::to_owned));
        self.errors
            .drain(..self.errors.len().saturating_sub(ERRORS));
        for (at, _) in log.match_indices("panicked at") {
            let said: Vec<&str> = log[at..].lines().take(3).collect();
            self.found.add(format!("a panic: {}", said.join(" ")));
        }
    }

    /// A caller for this intent.
    pub(crate) fn caller(&mut self, intent: Intent, until: Instant) -> Caller {
        Caller {
            http: self.http.clone(),
            door: self.stage.door.clone(),
            key: self.key_of(&intent).clone(),
            dice: self.dice.fork(),
            seen: self.seen.clone(),
            until,
            twins: self.twins,
            told: Told {
                intent,
                tries: Vec::new(),
            },
        }
    }

    fn key_of(&self, intent: &Intent) -> &Key {
        &self.stage.keys[intent.key]
    }

    /// Notes what a caller was told.
    pub(crate) fn hear(&mut self, told: Told) {
        self.told.push(told);
    }

    /// Lets everything come to its end, and checks it all.
    pub(crate) async fn settle(&mut self) {
        faults::calm(self.stage.simulator.world(), self.calm);
        self.kill();
        self.clock = None;
        self.bring_up(None).await;
        self.rest_elsewhere().await;
        self.rest().await;
        self.ask_again().await;
        self.rest().await;
        let views = match &self.server {
            Some(server) => Views::ask(&server.base, &self.stage.keys).await,
            None => Views::default(),
        };
        self.stop().await;
        self.check(&views).await;
    }

    /// Holds what was written down against what was told.
    pub(crate) async fn check(&mut self, views: &Views) {
        let facts = Facts::read(&self.stage).await;
        let found = check::all(&facts, &self.told, &self.called_off, views);
        self.found.0.extend(found.0);
        check::hooks::check(&self.stage, &facts, &mut self.found).await;
        self.verify().await;
        self.count(&facts);
    }

    fn count(&mut self, facts: &Facts) {
        self.totals.look(facts, &self.stage);
        for told in std::mem::take(&mut self.told) {
            let tasks = facts.tasks_of(&told.intent.tag);
            self.totals.unprovable += check::unprovable(&told, tasks) as u64;
            self.totals.hear(&told);
        }
        self.totals.called_off += std::mem::take(&mut self.called_off).len() as u64;
        self.seen.lock().unwrap().clear();
    }

    /// Now and then the operator changes the providers' settings, for the next process.
    pub(crate) fn change_settings(&mut self) {
        if self.dice.chance(25) {
            self.stage.move_providers();
            self.totals.moves += 1;
        }
    }

    /// Mostly the next process has the right time. Whether that is another than the last one had.
    pub(crate) fn change_clock(&mut self) -> bool {
        if !self.clocks {
            return false;
        }
        let next = self.dice.chance(20).then(|| *self.dice.pick(&CLOCKS));
        self.totals.wrong_clocks += u64::from(next.is_some());
        self.stage.had_a_wrong_clock |= next.is_some();
        std::mem::replace(&mut self.clock, next) != next
    }

    /// Starts the gateway, which is down, on a copy of its folder: that one orders nothing.
    pub(crate) async fn live_in_a_copy(&mut self) {
        let ordered = |run: &Self| {
            let journal = run.stage.simulator.world().journal();
            journal
                .iter()
                .filter(|one| one.role == RequestRole::Submit)
                .count()
        };
        let copy = self.stage.copy_aside().await;
        let before = ordered(self);
        let server = copy.must_start().await;
        tokio::time::sleep(COPY_LIVES).await;
        let log = server.kill();
        self.read_log(&log);
        let after = ordered(self);
        self.found.unless(before == after, || {
            format!("a copy ordered {} things:\n{log}", after - before)
        });
        self.totals.copies += 1;
    }

    /// Lets what was ordered with the other settings come to its end where it was ordered.
    async fn rest_elsewhere(&mut self) {
        if self.stage.open_elsewhere().await == 0 {
            return;
        }
        self.stage.move_providers();
        self.kill();
        self.bring_up(None).await;
        let begun = Instant::now();
        // By now "elsewhere" is where it came from.
        while self.stage.open_here().await > 0 && begun.elapsed() < REST {
            if self.has_died() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.stage.move_providers();
        self.kill();
        self.bring_up(None).await;
    }

    /// Waits until nothing is open.
    async fn rest(&mut self) {
        let begun = Instant::now();
        while self.stage.open().await > 0 {
            if self.has_died() {
                return;
            }
            if begun.elapsed() > REST {
                let log = self.server.as_ref().map(Server::log).unwrap_or_default();
                self.found.add(format!(
                    "tasks are open, or not told, after {REST:?}:\n{log}"
                ));
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Some callers with keys ask once more for what they have.
    pub(crate) async fn ask_again(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        let mut again = Vec::new();
        for (number, told) in self.told.iter().enumerate() {
            let has_it = told.tries.iter().any(|one| one.good().is_some());
            if told.intent.way == Way::Keyed && has_it {
                again.push(number);
            }
        }
        for _ in 0..again.len().min(10) {
            let number =
                again.swap_remove(usize::try_from(self.dice.roll(again.len() as u64)).unwrap());
            let caller = self.caller(self.told[number].intent.clone(), until);
            let told = caller.ask_once().await;
            self.told[number].tries.extend(told.tries);
        }
    }

    /// Ends the gateway politely.
    async fn stop(&mut self) {
        if self.has_died() {
            return;
        }
        self.stage.door.close();
        if let Some(server) = self.server.take() {
            self.end(server).await;
        }
    }

    /// Ends this process politely.
    pub(crate) async fn end(&mut self, server: Server) {
        let (status, log) = server.stop().await;
        self.read_log(&log);
        self.found
            .unless(status.is_some_and(|status| status.success()), || {
                format!("asked to end, it ended as {status:?}:\n{log}")
            });
    }

    /// The program's own look at its books.
    async fn verify(&mut self) {
        let output = self.stage.command(&["ledger", "verify"]).await;
        // A provider that answers two orders with one job (`Fault::Duplicate`) is told of, and rightly; that
        // the gateway itself orders nothing twice is checked by what arrived there.
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = lines.lines();
        let is_fault = |line: &str| {
            line.starts_with("submission ") && line.contains("it has the same job at ")
        };
        let is_clean =
            output.status.success() || (!output.stdout.is_empty() && lines.all(is_fault));
        self.found
            .unless(is_clean, || format!("ledger verify: {output:?}"));
    }

    /// Fails when anything was found.
    pub(crate) fn must_be_clean(&self) {
        let found = &self.found.0;
        assert!(
            found.is_empty(),
            "{} violations:\n{}\nthe last errors in the log:\n{}",
            found.len(),
            found.join("\n"),
            self.errors.iter().cloned().collect::<Vec<_>>().join("\n")
        );
    }
}
