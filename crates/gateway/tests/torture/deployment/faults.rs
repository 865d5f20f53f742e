//! The faults of the parts, each with dice of its own.

use std::time::Duration;

use simulator::{ConnectionCut, LinkState, NetworkState};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::parts::{Counts, Deployment, Replica};
use super::wait;
use crate::bucket::TestBucket;
use crate::crash_points::names;
use crate::dice::Dice;
use crate::pair::Pair;
use crate::program::{CLOCKS, PointAction};

const REFUSES: NetworkState = NetworkState {
    up: LinkState::with_delay(Duration::ZERO),
    down: LinkState::with_delay(Duration::ZERO),
    refuses: true,
};

impl Deployment {
    /// Injects faults into every part until `stop`, and removes them then.
    pub(super) async fn inject_faults(mut self, mut dice: Dice, stop: CancellationToken) -> Self {
        let mut replicas = JoinSet::new();
        for (number, mut replica) in self.replicas.drain(..).enumerate() {
            let (mut dice, stop) = (dice.fork(), stop.clone());
            replicas.spawn(async move {
                while !stop.is_cancelled() {
                    wait(dice.millis(500, 8000), &stop).await;
                    let name = inject_fault(&mut replica, &mut dice, &stop).await;
                    *replica.counts.entry(name).or_default() += 1;
                    replica.heal();
                    if replica.is_gone() {
                        if dice.chance(30) {
                            replica.configure(dice.chance(50));
                            *replica.counts.entry("other settings").or_default() += 1;
                        }
                        if dice.chance(15) {
                            replica.clock = Some(*dice.pick(&CLOCKS));
                            *replica.counts.entry("a wrong clock").or_default() += 1;
                        }
                        let was_armed_to_stop = matches!(replica.armed, Some(PointAction::Stop(_)));
                        replica.start().await;
                        if was_armed_to_stop {
                            replica
                                .resume_after_stop(dice.millis(500, 8000), &stop)
                                .await;
                        }
                    }
                }
                (number, replica)
            });
        }
        let mut bucket_dice = dice.fork();
        let mut counts = [Counts::new(), Counts::new()];
        let [postgres_counts, bucket_counts] = &mut counts;
        tokio::join!(
            postgres_faults(&mut self.postgres, &mut dice, &stop, postgres_counts),
            bucket_faults(&self.bucket, &mut bucket_dice, &stop, bucket_counts),
        );
        for (name, count) in counts.into_iter().flatten() {
            *self.counts.entry(name).or_default() += count;
        }
        let mut replicas_back = replicas.join_all().await;
        replicas_back.sort_by_key(|(number, _)| *number);
        self.replicas = replicas_back
            .into_iter()
            .map(|(_, replica)| replica)
            .collect();
        self
    }
}

/// Injects one fault into a process or its connections to the database.
async fn inject_fault(
    replica: &mut Replica,
    dice: &mut Dice,
    stop: &CancellationToken,
) -> &'static str {
    let duration = dice.millis(100, 7000);
    let each_way = |up, down| NetworkState {
        up,
        down,
        refuses: false,
    };
    let (held, open) = (LinkState::held(), LinkState::default());
    let network = match dice.roll(14) {
        0 => (
            "late",
            NetworkState::both(LinkState::with_delay(Duration::from_millis(2))),
        ),
        1 => ("cut off both ways", NetworkState::both(held)),
        2 => ("receives nothing", each_way(open, held)),
        3 => ("sends nothing", each_way(held, open)),
        4 => {
            replica.reset();
            ("gone", REFUSES)
        }
        5 | 6 => {
            let (name, cut) = if dice.chance(70) {
                (
                    "commit without an answer",
                    ConnectionCut::new("COMMIT").passing(),
                )
            } else {
                let cut = ConnectionCut::new("INTO submissions").holding();
                ("an intent held up", cut)
            };
            replica
                .proxies
                .iter()
                .for_each(|proxy| proxy.cut(cut.clone()));
            (name, NetworkState::default())
        }
        7 => {
            if let Some(server) = &replica.server {
                server.signal("-STOP");
            }
            ("stopped", NetworkState::default())
        }
        8 => {
            replica.drain().await;
            return "restarted by SIGTERM";
        }
        roll => {
            let points = names();
            let name = match roll {
                9 | 10 if !points.is_empty() => {
                    let point = format!("{}:{}", dice.pick(&points), dice.between(1, 3));
                    replica.armed = Some(PointAction::Stop(point));
                    "stopped at a point"
                }
                11 | 12 if !points.is_empty() => {
                    let point = format!("{}:{}", dice.pick(&points), dice.between(1, 3));
                    replica.armed = Some(PointAction::Crash(point));
                    "crashed at a point"
                }
                _ => "killed",
            };
            replica.kill();
            return name;
        }
    };
    replica.set(network.1);
    wait(duration, stop).await;
    network.0
}

/// The faults of Postgres: it loses power, fails over to its standby, or either server is stopped.
async fn postgres_faults(
    pair: &mut Pair,
    dice: &mut Dice,
    stop: &CancellationToken,
    counts: &mut Counts,
) {
    while !stop.is_cancelled() {
        wait(dice.millis(8000, 30_000), stop).await;
        let duration = dice.millis(100, 6000);
        let name = match dice.roll(5) {
            0 => {
                tokio::task::block_in_place(|| pair.primary().stop_immediately());
                wait(duration, stop).await;
                tokio::task::block_in_place(|| pair.primary().start_again());
                "Postgres loses its power"
            }
            1 | 2 => {
                tokio::task::block_in_place(|| pair.fail_over());
                wait(duration, stop).await;
                tokio::task::block_in_place(|| pair.rebuild());
                pair.synchronize().await;
                "Postgres fails over"
            }
            3 => {
                pair.standby().signal("-STOP", "walreceiver");
                wait(duration, stop).await;
                pair.standby().signal("-CONT", "walreceiver");
                "the standby is stopped"
            }
            _ => {
                pair.primary().signal("-STOP", "");
                wait(duration, stop).await;
                pair.primary().signal("-CONT", "");
                "Postgres is stopped"
            }
        };
        *counts.entry(name).or_default() += 1;
        // Nothing may be lost: the standby is not promoted before it has everything.
        pair.synchronize().await;
    }
}

async fn bucket_faults(
    bucket: &TestBucket,
    dice: &mut Dice,
    stop: &CancellationToken,
    counts: &mut Counts,
) {
    while !stop.is_cancelled() {
        wait(dice.millis(1000, 10_000), stop).await;
        let duration = dice.millis(100, 10_000);
        let name = match dice.roll(4) {
            0 => {
                bucket.fail("");
                "the bucket fails"
            }
            1 => {
                bucket.fail("PUT");
                "the bucket accepts nothing"
            }
            2 => {
                bucket.proxy.reset();
                bucket.proxy.set(REFUSES);
                "the bucket is gone"
            }
            _ => {
                bucket.proxy.set(NetworkState::both(LinkState::held()));
                "the bucket stalls"
            }
        };
        wait(duration, stop).await;
        bucket.heal();
        *counts.entry(name).or_default() += 1;
    }
}
