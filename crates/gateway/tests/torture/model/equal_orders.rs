//! A model of two orders at once whose jobs look the same in the provider's list, and of every way
//! in which their answers can be late, lost or wrong. A job belongs to one order, and nobody gets
//! the film of another order.

use stateright::{Checker as _, HasDiscoveries, Model, Property};

/// What an order is made from: the list shows only its prompt, which both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Content {
    Text,
    /// A picture with this number.
    Picture(u8),
}

/// What keeps a job with its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Safeguard {
    /// An acceptance fails if another order has the job.
    OneOrder,
    /// A look-up decides nothing while the other order may have a job that looks the same.
    NoTwin,
    /// An order with a picture is not looked up.
    AllShown,
    /// The orders are compared after the list was read.
    ListFirst,
}

#[derive(Debug, Clone)]
struct PairRules {
    contents: [Content; 2],
    /// Whether the provider may answer an order with the job of the other one.
    answers_wrongly: bool,
    without: &'static [Safeguard],
}

impl PairRules {
    const fn new(contents: [Content; 2]) -> Self {
        Self {
            contents,
            answers_wrongly: false,
            without: &[],
        }
    }

    fn has(&self, safeguard: Safeguard) -> bool {
        !self.without.contains(&safeguard)
    }
}

/// The record of an order's submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Record {
    /// It was not sent.
    New,
    /// It is being sent. In doubt, no process waits for the answer any more; one that was stopped
    /// may still get it.
    Intended { in_doubt: bool, look_up: LookUp },
    /// It has the job of this order.
    Accepted(usize),
    /// It was given up.
    Unclear,
    /// It was given up, and has the job of this order.
    Found(usize),
}

/// What a look-up has read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LookUp {
    Idle,
    /// The provider's list: whether it has the job of each order.
    Listed([bool; 2]),
    /// Whether the other order may have a job: a wrong order of the two steps.
    Compared {
        has_twin: bool,
    },
}

impl Record {
    const SENT: Self = Self::Intended {
        in_doubt: false,
        look_up: LookUp::Idle,
    };

    const fn job(self) -> Option<usize> {
        match self {
            Self::Accepted(job) | Self::Found(job) => Some(job),
            Self::New | Self::Intended { .. } | Self::Unclear => None,
        }
    }

    const fn is_undecided(self) -> bool {
        matches!(self, Self::Intended { .. } | Self::Unclear)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PairState {
    records: [Record; 2],
    /// Whether the provider made a job for each order.
    made: [bool; 2],
    /// The answer that is on its way to each order: the job of this order.
    answers: [Option<usize>; 2],
    /// Whether the request is on its way.
    sent: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Send(usize),
    /// The provider makes the order's job.
    Make(usize),
    /// The provider makes nothing and answers with the other order's job.
    AnswerWrongly(usize),
    /// The answer arrives.
    Receive(usize),
    /// The process gives up waiting for the answer, which may still come.
    Doubt(usize),
    /// A step of a look-up.
    LookUp(usize),
    GiveUp(usize),
}

impl PairState {
    fn is_taken(&self, job: usize, order: usize) -> bool {
        self.records[1 - order].job() == Some(job)
    }

    fn accept(&mut self, rules: &PairRules, order: usize, job: usize) {
        let is_free = !self.is_taken(job, order) || !rules.has(Safeguard::OneOrder);
        let record = &mut self.records[order];
        *record = match *record {
            Record::Intended { .. } if is_free => Record::Accepted(job),
            Record::Intended { .. } => Record::Unclear,
            Record::Unclear if is_free => Record::Found(job),
            other => other,
        };
    }

    fn look_up(&mut self, rules: &PairRules, order: usize, look_up: LookUp) {
        let has_twin = self.records[1 - order].is_undecided();
        let next = match look_up {
            LookUp::Idle if rules.has(Safeguard::ListFirst) => LookUp::Listed(self.made),
            LookUp::Idle => LookUp::Compared { has_twin },
            LookUp::Listed(listed) => return self.decide(rules, order, listed, has_twin),
            LookUp::Compared { has_twin } => {
                return self.decide(rules, order, self.made, has_twin);
            }
        };
        self.records[order] = Record::Intended {
            in_doubt: true,
            look_up: next,
        };
    }

    fn decide(&mut self, rules: &PairRules, order: usize, listed: [bool; 2], has_twin: bool) {
        self.records[order] = Record::Intended {
            in_doubt: true,
            look_up: LookUp::Idle,
        };
        let mut free = (0..2).filter(|job| listed[*job] && !self.is_taken(*job, order));
        let first = free.next();
        let is_only = free.next().is_none();
        if rules.has(Safeguard::NoTwin) && (has_twin || !is_only) {
            return;
        }
        if let Some(job) = first {
            self.accept(rules, order, job);
        }
    }
}

impl Model for PairRules {
    type State = PairState;
    type Action = Action;

    fn init_states(&self) -> Vec<PairState> {
        vec![PairState {
            records: [Record::New; 2],
            made: [false; 2],
            answers: [None; 2],
            sent: [false; 2],
        }]
    }

    fn actions(&self, state: &PairState, actions: &mut Vec<Action>) {
        for order in 0..2 {
            match state.records[order] {
                Record::New => actions.push(Action::Send(order)),
                Record::Intended {
                    in_doubt: false, ..
                } => actions.push(Action::Doubt(order)),
                Record::Intended { .. } => {
                    actions.push(Action::GiveUp(order));
                    let is_text = self.contents[order] == Content::Text;
                    if is_text || !self.has(Safeguard::AllShown) {
                        actions.push(Action::LookUp(order));
                    }
                }
                Record::Accepted(_) | Record::Unclear | Record::Found(_) => {}
            }
            if state.sent[order] {
                actions.push(Action::Make(order));
                if self.answers_wrongly && state.made[1 - order] {
                    actions.push(Action::AnswerWrongly(order));
                }
            }
            if state.answers[order].is_some() {
                actions.push(Action::Receive(order));
            }
        }
    }

    fn next_state(&self, state: &PairState, action: Action) -> Option<PairState> {
        let mut next = state.clone();
        match action {
            Action::Send(order) => {
                (next.records[order], next.sent[order]) = (Record::SENT, true);
            }
            Action::Make(order) => {
                (next.sent[order], next.made[order]) = (false, true);
                next.answers[order] = Some(order);
            }
            Action::AnswerWrongly(order) => {
                next.sent[order] = false;
                next.answers[order] = Some(1 - order);
            }
            Action::Receive(order) => {
                let job = next.answers[order].take()?;
                next.accept(self, order, job);
            }
            Action::Doubt(order) => {
                next.records[order] = Record::Intended {
                    in_doubt: true,
                    look_up: LookUp::Idle,
                };
            }
            Action::LookUp(order) => {
                let Record::Intended { look_up, .. } = next.records[order] else {
                    return None;
                };
                next.look_up(self, order, look_up);
            }
            Action::GiveUp(order) => next.records[order] = Record::Unclear,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_ORDER, |_, state: &PairState| {
                let [first, second] = state.records.map(Record::job);
                first.is_none() || first != second
            }),
            Property::always(OWN_FILM, |rules: &PairRules, state: &PairState| {
                let mut records = rules.contents.iter().zip(state.records);
                // If the provider itself names another job, nobody can know that.
                rules.answers_wrongly
                    || records.all(|(content, record)| {
                        let job = record.job();
                        job.is_none_or(|job| rules.contents[job] == *content)
                    })
            }),
            Property::sometimes(
                "an order in doubt gets its job",
                |rules: &PairRules, state: &PairState| {
                    let is_found = |(content, record): (&Content, &Record)| {
                        *content == Content::Text && record.job().is_some()
                    };
                    let mut records = rules.contents.iter().zip(&state.records);
                    !rules.contents.contains(&Content::Text) || records.any(is_found)
                },
            ),
        ]
    }
}

const ONE_ORDER: &str = "a job belongs to one order";
const OWN_FILM: &str = "an order gets a film of its own content";

/// Every pair of contents that makes a difference.
const PAIRS: [[Content; 2]; 3] = [
    [Content::Text, Content::Text],
    [Content::Text, Content::Picture(1)],
    [Content::Picture(1), Content::Picture(2)],
];

#[test]
fn no_order_gets_the_film_of_another() {
    for contents in PAIRS {
        for answers_wrongly in [false, true] {
            let rules = PairRules {
                answers_wrongly,
                ..PairRules::new(contents)
            };
            let checker = rules.checker().threads(2).spawn_bfs().join();
            println!("{} states", checker.unique_state_count());
            checker.assert_properties();
        }
    }
}

/// Asserts that this property is violated without this safeguard.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "rules are written where they are given"
)]
fn assert_needed(without: &'static [Safeguard], rules: PairRules, property: &'static str) {
    let rules = PairRules { without, ..rules };
    let condition = HasDiscoveries::AllOf(std::iter::once(property).collect());
    let checker = rules.checker().threads(2).finish_when(condition);
    checker.spawn_bfs().join().assert_any_discovery(property);
}

#[test]
fn an_acceptance_looks_for_another_owner_of_the_job() {
    let rules = PairRules {
        answers_wrongly: true,
        ..PairRules::new(PAIRS[0])
    };
    assert_needed(&[Safeguard::OneOrder], rules, ONE_ORDER);
}

#[test]
fn a_look_up_waits_for_an_order_that_looks_the_same() {
    assert_needed(&[Safeguard::NoTwin], PairRules::new(PAIRS[1]), OWN_FILM);
}

#[test]
fn an_order_with_a_picture_is_not_looked_up() {
    // The other order was accepted under the same prompt, or never arrived.
    let without = &[Safeguard::AllShown, Safeguard::NoTwin];
    assert_needed(without, PairRules::new(PAIRS[2]), OWN_FILM);
}

#[test]
fn the_list_is_read_before_the_orders_are_compared() {
    assert_needed(&[Safeguard::ListFirst], PairRules::new(PAIRS[1]), OWN_FILM);
}
