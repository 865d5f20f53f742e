//! What must hold in every reachable state.

use stateright::{Model, Property};

use super::state::{Caller, FailureCause, Job, Phase, Rules, State, Status, Submission, Task};
use super::steps::{self, Action};
use super::world;

impl Model for Rules {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            caller: Caller::Idle,
            ghost: false,
            tries: 0,
            crashes: 0,
            stalls: 0,
            cancellations: 0,
            restores: 0,
            moves: 0,
            is_moved: false,
            tasks: Vec::new(),
            backup: None,
            workers: [None, None],
            sent: Vec::new(),
            jobs: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        steps::actions(self, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        world::after(self, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("money moves once", |_, state: &State| {
                state.tasks.iter().all(moves_once)
            }),
            Property::always("paid only for what was made", |_, state: &State| {
                let mut tasks = state.tasks.iter().enumerate();
                tasks.all(|(number, task)| task.settled == 0 || was_made(state, number))
            }),
            Property::always("closed with the end", |rules: &Rules, state: &State| {
                state
                    .tasks
                    .iter()
                    .all(|task| closed_with_the_end(rules, task))
            }),
            Property::always("one job for each task", |_, state: &State| {
                (0..state.tasks.len()).all(|task| count_jobs(state, task) <= 1)
            }),
            Property::always("one task is paid for", |_, state: &State| {
                state.tasks.iter().filter(|task| task.settled > 0).count() <= 1
            }),
            Property::always(
                "a made result is not reported as failed",
                |_, state: &State| {
                    let failed = Status::Failed(FailureCause::Generation);
                    let thrown_away = |job: &Job| {
                        job.phase == Phase::Made && state.tasks[job.task].status == failed
                    };
                    !state.jobs.iter().any(thrown_away)
                },
            ),
            Property::always("one open task", |_, state: &State| {
                let open = |task: &&Task| task.status == Status::Open;
                state.tasks.iter().filter(open).count() <= 1
            }),
            Property::always(
                "one submission that may have been accepted",
                |_, state: &State| {
                    state
                        .tasks
                        .iter()
                        .all(|task| count_possibly_accepted(task) <= 1)
                },
            ),
            Property::always(
                "nothing is sent for a task that has failed",
                |_, state: &State| state.sent.iter().all(|request| !request.is_late),
            ),
            Property::always("an abandoned job is reported", |_, state: &State| {
                state.tasks.iter().all(is_reported)
            }),
            // The last two check that the model reaches something.
            Property::sometimes("a task succeeds", |_, state: &State| {
                state
                    .tasks
                    .iter()
                    .any(|task| task.status == Status::Succeeded)
            }),
            Property::sometimes(
                "a repetition makes a second task",
                |rules: &Rules, state: &State| rules.tries < 2 || state.tasks.len() > 1,
            ),
        ]
    }
}

fn moves_once(task: &Task) -> bool {
    task.reserved == 1 && task.settled + task.released <= 1
}

fn was_made(state: &State, task: usize) -> bool {
    let mut jobs = state.jobs.iter();
    jobs.any(|job| job.task == task && job.phase == Phase::Made)
}

fn closed_with_the_end(rules: &Rules, task: &Task) -> bool {
    match task.status {
        Status::Open => task.money_is_open(),
        Status::Succeeded => task.settled == 1,
        Status::Failed(_) => task.released == 1,
        Status::Cancelled => rules.charges || task.released == 1,
    }
}

fn count_possibly_accepted(task: &Task) -> usize {
    let submissions = task.submissions.iter();
    submissions
        .filter(|submission| **submission != Submission::Refused)
        .count()
}

fn is_reported(task: &Task) -> bool {
    let mut submissions = task.submissions.iter();
    task.status != Status::Failed(FailureCause::Unconfirmed)
        || !submissions.any(|submission| matches!(submission, Submission::Accepted(_)))
}

fn count_jobs(state: &State, task: usize) -> usize {
    state.jobs.iter().filter(|job| job.task == task).count()
}
