//! A gateway under torture: it crashes, restarts, and in
//! between finishes all tasks so that everything can be checked.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use simulator::{JobPlan, RequestRole};
use tokio::time::Instant;

use crate::approver::{Approver, Decisions};
use crate::callers::{Caller, CallerHistory, SeenTasks};
use crate::check::{self, Facts, Violations, views::Views};
use crate::dice::Dice;
use crate::faults;
use crate::intent::{Intent, RetryStyle};
use crate::program::{CLOCKS, PointAction, Server, Start};
use crate::stage::{Key, Stage, client};
use crate::totals::Totals;

/// How long it may take until every task has ended, once faults stop.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_mins(3);
/// How long a copy runs: long enough to claim every task that it would claim.
const COPY_TIME: Duration = Duration::from_secs(2);
/// The signal with which `abort` ends a process.
const ABORTED: i32 = 6;

/// A gateway that crashes and restarts.
pub(crate) struct Run {
    pub(crate) stage: Stage,
    pub(crate) server: Option<Server>,
    /// The point at which the running process is to crash.
    pub(crate) armed: Option<String>,
    pub(crate) dice: Dice,
    pub(crate) histories: Vec<CallerHistory>,
    pub(crate) seen_tasks: SeenTasks,
    pub(crate) cancelled_tasks: Vec<(String, String)>,
    /// What was decided about orders that waited for approval.
    decisions: Decisions,
    _approver: Approver,
    pub(crate) totals: Totals,
    pub(crate) http: reqwest::Client,
    pub(crate) violations: Violations,
    /// The last errors that the program logged: they explain violations.
    errors: VecDeque<String>,
    /// The plan of jobs while no faults are injected.
    pub(crate) default_plan: JobPlan,
    /// The clock offset of the next process.
    pub(crate) clock: Option<&'static str>,
    /// Whether clocks are wrong now and then.
    pub(crate) clocks: bool,
    /// Whether callers that count their tries send some twice.
    pub(crate) sends_duplicates: bool,
}

/// How many logged errors are kept.
const ERRORS: usize = 50;

impl Run {
    pub(crate) fn new(stage: Stage, mut dice: Dice) -> Self {
        let decisions = Decisions::default();
        let approver = Approver::start(
            client(),
            stage.address.clone(),
            stage.approver.clone(),
            dice.fork(),
            decisions.clone(),
        );
        Self {
            stage,
            server: None,
            armed: None,
            dice,
            histories: Vec::new(),
            seen_tasks: SeenTasks::default(),
            cancelled_tasks: Vec::new(),
            decisions,
            _approver: approver,
            totals: Totals::default(),
            http: client(),
            violations: Violations::default(),
            errors: VecDeque::new(),
            default_plan: JobPlan::default(),
            clock: None,
            clocks: false,
            sends_duplicates: true,
        }
    }

    /// Starts the gateway, to crash at a point; one that crashes while starting is started
    /// again, unarmed.
    pub(crate) async fn bring_up(&mut self, point: Option<String>) {
        self.armed.clone_from(&point);
        self.bring_up_at(point.map(PointAction::Crash)).await;
    }

    /// Starts the gateway with an action at a point.
    pub(crate) async fn bring_up_at(&mut self, point_action: Option<PointAction>) {
        let start = Start {
            point_action,
            clock: self.clock,
        };
        let server = match self.stage.start(&start).await {
            Ok(server) => server,
            Err(failed) => {
                self.record_exit(failed.status, &failed.log);
                self.stage.must_start().await
            }
        };
        self.stage.address.publish(&server.base);
        self.server = Some(server);
    }

    /// Records that a process ended by itself.
    pub(crate) fn record_exit(&mut self, status: ExitStatus, log: &str) {
        self.stage.address.withdraw();
        self.read_log(log);
        let point = self.armed.take();
        match point {
            Some(point) if status.signal() == Some(ABORTED) => {
                *self.totals.crashes.entry(point).or_default() += 1;
            }
            point => self.violations.add(format!(
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
            self.record_exit(status, &server.kill());
        }
        true
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if self.has_died() {
            return;
        }
        self.stage.address.withdraw();
        if let Some(server) = self.server.take() {
            self.read_log(&server.kill());
        }
        self.armed = None;
        self.totals.kills += 1;
    }

    pub(crate) fn read_log(&mut self, log: &str) {
        for line in log
            .lines()
            .filter(|line| line.contains("is a copy or a restored"))
        {
            println!("{line}");
        }
        let errors = log
            .lines()
            .filter(|line| line.contains("\"level\":\"ERROR\""));
        self.errors.extend(errors.map(ToOwned::to_owned));
        self.errors
            .drain(..self.errors.len().saturating_sub(ERRORS));
        for (start, _) in log.match_indices("panicked at") {
            let lines: Vec<&str> = log[start..].lines().take(3).collect();
            self.violations.add(format!("a panic: {}", lines.join(" ")));
        }
    }

    /// A caller for this intent.
    pub(crate) fn caller(&mut self, intent: Intent, until: Instant) -> Caller {
        Caller {
            http: self.http.clone(),
            address: self.stage.address.clone(),
            key: self.key_of(&intent).clone(),
            dice: self.dice.fork(),
            seen_tasks: self.seen_tasks.clone(),
            until,
            sends_duplicates: self.sends_duplicates,
            history: CallerHistory {
                intent,
                tries: Vec::new(),
            },
        }
    }

    fn key_of(&self, intent: &Intent) -> &Key {
        &self.stage.keys[intent.key]
    }

    /// Keeps what a caller received, for the checks.
    pub(crate) fn record(&mut self, history: CallerHistory) {
        self.histories.push(history);
    }

    /// Lets all tasks end, and checks everything.
    pub(crate) async fn settle(&mut self) {
        faults::reset_providers(self.stage.simulator.world(), self.default_plan);
        self.kill();
        self.clock = None;
        self.bring_up(None).await;
        self.finish_elsewhere().await;
        self.wait_until_idle().await;
        self.repeat_some().await;
        self.wait_until_idle().await;
        let views = match &self.server {
            Some(server) => Views::read(&server.base, &self.stage.keys).await,
            None => Views::default(),
        };
        self.stop().await;
        self.check(&views).await;
    }

    /// Compares what is recorded with what callers received.
    pub(crate) async fn check(&mut self, views: &Views) {
        let facts = Facts::read(&self.stage).await;
        let violations = check::check_all(&facts, &self.histories, &self.cancelled_tasks, views);
        let decisions = std::mem::take(&mut *self.decisions.lock().unwrap());
        self.totals.decisions += decisions.len() as u64;
        let trusts_clocks = !self.stage.had_a_wrong_clock;
        check::approvals::check(&facts, &decisions, trusts_clocks, &mut self.violations);
        self.violations.0.extend(violations.0);
        check::webhooks::check(&self.stage, &facts, &mut self.violations).await;
        self.verify().await;
        self.count(&facts);
    }

    fn count(&mut self, facts: &Facts) {
        self.totals.count_facts(facts, &self.stage);
        for history in std::mem::take(&mut self.histories) {
            let tasks = facts.tasks_of(&history.intent.tag);
            self.totals.unprovable += check::unprovable_tries(&history, tasks) as u64;
            self.totals.count_history(&history);
        }
        self.totals.cancelled_tasks += std::mem::take(&mut self.cancelled_tasks).len() as u64;
        self.seen_tasks.lock().unwrap().clear();
    }

    /// Now and then the operator changes the providers' settings, for the next process.
    pub(crate) fn change_settings(&mut self) {
        if self.dice.chance(25) {
            self.stage.move_providers();
            self.totals.moves += 1;
        }
        if self.dice.chance(25) {
            self.stage.flip_options();
            self.totals.flips += 1;
        }
    }

    /// Picks the next process's clock, mostly the right one; returns whether it changed.
    pub(crate) fn change_clock(&mut self) -> bool {
        if !self.clocks {
            return false;
        }
        let next_clock = self.dice.chance(20).then(|| *self.dice.pick(&CLOCKS));
        self.totals.wrong_clocks += u64::from(next_clock.is_some());
        self.stage.had_a_wrong_clock |= next_clock.is_some();
        std::mem::replace(&mut self.clock, next_clock) != next_clock
    }

    /// Starts a gateway on a copy of the folder, while the original gateway is down: the copy must
    /// order nothing.
    pub(crate) async fn run_a_copy(&mut self) {
        let copy = self.stage.silent_copy().await;
        let before = self.stage.simulator.world().journal().len();
        let server = copy.must_start().await;
        tokio::time::sleep(COPY_TIME).await;
        let log = server.kill();
        self.read_log(&log);
        let journal = self.stage.simulator.world().journal();
        let later = journal.iter().skip(before);
        let orders: Vec<String> = later
            .filter(|request| request.role == RequestRole::Submit)
            .map(|request| request.to_json().to_string())
            .collect();
        self.violations.unless(orders.is_empty(), || {
            format!("a copy ordered {orders:#?}:\n{log}")
        });
        self.totals.copies += 1;
    }

    /// Finishes the orders that were made with other settings, with those settings.
    async fn finish_elsewhere(&mut self) {
        // Every combination of both changes once, and back to the first.
        let moves: fn(&mut Stage) = Stage::move_providers;
        let flips: fn(&mut Stage) = Stage::flip_options;
        for change in [moves, flips, moves, flips] {
            change(&mut self.stage);
            if self.stage.count_open_here().await == 0 {
                continue;
            }
            self.kill();
            self.bring_up(None).await;
            let begun = Instant::now();
            while self.stage.count_open_here().await > 0 && begun.elapsed() < SETTLE_TIMEOUT {
                if self.has_died() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        self.kill();
        self.bring_up(None).await;
    }

    /// Waits until nothing is open.
    async fn wait_until_idle(&mut self) {
        let begun = Instant::now();
        while self.stage.count_open().await > 0 {
            if self.has_died() {
                return;
            }
            if begun.elapsed() > SETTLE_TIMEOUT {
                let log = self.server.as_ref().map(Server::log).unwrap_or_default();
                self.violations.add(format!(
                    "tasks or deliveries are open after {SETTLE_TIMEOUT:?}:\n{log}"
                ));
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Some callers with keys ask once more for the results they have.
    pub(crate) async fn repeat_some(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        let mut candidates = Vec::new();
        for (index, history) in self.histories.iter().enumerate() {
            let has_result = history.tries.iter().any(|attempt| attempt.good().is_some());
            if history.intent.style == RetryStyle::Keyed && has_result {
                candidates.push(index);
            }
        }
        for _ in 0..candidates.len().min(10) {
            let index = candidates
                .swap_remove(usize::try_from(self.dice.roll(candidates.len() as u64)).unwrap());
            let caller = self.caller(self.histories[index].intent.clone(), until);
            let history = caller.repeat_once().await;
            self.histories[index].tries.extend(history.tries);
        }
    }

    /// Ends the gateway by SIGTERM.
    async fn stop(&mut self) {
        if self.has_died() {
            return;
        }
        self.stage.address.withdraw();
        if let Some(server) = self.server.take() {
            self.end(server).await;
        }
    }

    /// Ends this process by SIGTERM.
    pub(crate) async fn end(&mut self, server: Server) {
        let (status, log) = server.stop().await;
        self.read_log(&log);
        self.violations
            .unless(status.is_some_and(|status| status.success()), || {
                format!("asked to end, it ended as {status:?}:\n{log}")
            });
    }

    /// Runs the program's own check of its ledger.
    async fn verify(&mut self) {
        let output = self.stage.command(&["ledger", "verify"]).await;
        self.violations.unless(output.status.success(), || {
            format!("ledger verify: {output:?}")
        });
    }

    /// Fails if there are violations.
    pub(crate) fn assert_no_violations(&self) {
        let violations = &self.violations.0;
        assert!(
            violations.is_empty(),
            "{} violations:\n{}\nthe last errors in the log:\n{}",
            violations.len(),
            violations.join("\n"),
            self.errors.iter().cloned().collect::<Vec<_>>().join("\n")
        );
    }
}
