//! What befalls the parts, each by dice of its own.

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
use crate::program::{At, CLOCKS};

const REFUSES: NetworkState = NetworkState {
    up: LinkState::with_delay(Duration::ZERO),
    down: LinkState::with_delay(Duration::ZERO),
    refuses: true,
};

impl Deployment {
    /// Everything fails in turn until it is over, and is in order then.
    pub(super) async fn suffer(mut self, mut dice: Dice, over: CancellationToken) -> Self {
        let mut replicas = JoinSet::new();
        for (number, mut replica) in self.replicas.drain(..).enumerate() {
            let (mut dice, over) = (dice.fork(), over.clone());
            replicas.spawn(async move {
                while !over.is_cancelled() {
                    wait(dice.millis(500, 8000), &over).await;
                    let name = spoil(&mut replica, &mut dice, &over).await;
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
                        let stops = matches!(replica.armed, Some(At::Stop(_)));
                        replica.start().await;
                        if stops {
                            replica.stand_still(dice.millis(500, 8000), &over).await;
                        }
                    }
                }
                (number, replica)
            });
        }
        let mut for_bucket = dice.fork();
        let mut counts = [Counts::new(), Counts::new()];
        let [of_postgres, of_bucket] = &mut counts;
        tokio::join!(
            servers(&mut self.postgres, &mut dice, &over, of_postgres),
            bucket(&self.bucket, &mut for_bucket, &over, of_bucket),
        );
        for (name, count) in counts.into_iter().flatten() {
            *self.counts.entry(name).or_default() += count;
        }
        let mut back = replicas.join_all().await;
        back.sort_by_key(|(number, _)| *number);
        self.replicas = back.into_iter().map(|(_, replica)| replica).collect();
        self
    }
}

/// A thing that goes wrong with a process or its ways to the database.
async fn spoil(replica: &mut Replica, dice: &mut Dice, over: &CancellationToken) -> &'static str {
    let while_ = dice.millis(100, 7000);
    let one_way = |up, down| NetworkState {
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
        2 => ("hears nothing", one_way(open, held)),
        3 => ("is not heard", one_way(held, open)),
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
            replica.ways.iter().for_each(|way| way.cut(cut.clone()));
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
            return "restarted politely";
        }
        other => {
            let points = names();
            let name = match other {
                9 | 10 if !points.is_empty() => {
                    let point = format!("{}:{}", dice.pick(&points), dice.between(1, 3));
                    replica.armed = Some(At::Stop(point));
                    "stands still at a point"
                }
                11 | 12 if !points.is_empty() => {
                    let point = format!("{}:{}", dice.pick(&points), dice.between(1, 3));
                    replica.armed = Some(At::Crash(point));
                    "dies at a point"
                }
                _ => "killed",
            };
            replica.kill();
            return name;
        }
    };
    replica.set(network.1);
    wait(while_, over).await;
    network.0
}

/// The database: it loses its power, its standby takes its place, one or both stand still.
async fn servers(pair: &mut Pair, dice: &mut Dice, over: &CancellationToken, counts: &mut Counts) {
    while !over.is_cancelled() {
        wait(dice.millis(8000, 30_000), over).await;
        let while_ = dice.millis(100, 6000);
        let name = match dice.roll(5) {
            0 => {
                tokio::task::block_in_place(|| pair.primary().stop_immediately());
                wait(while_, over).await;
                tokio::task::block_in_place(|| pair.primary().start_again());
                "Postgres loses its power"
            }
            1 | 2 => {
                tokio::task::block_in_place(|| pair.fail_over());
                wait(while_, over).await;
                tokio::task::block_in_place(|| pair.rebuild());
                pair.synchronize().await;
                "Postgres fails over"
            }
            3 => {
                pair.standby().signal("-STOP", "walreceiver");
                wait(while_, over).await;
                pair.standby().signal("-CONT", "walreceiver");
                "the standby stands still"
            }
            _ => {
                pair.primary().signal("-STOP", "");
                wait(while_, over).await;
                pair.primary().signal("-CONT", "");
                "Postgres stands still"
            }
        };
        *counts.entry(name).or_default() += 1;
        // Nothing may be lost: it is not promoted before it has all.
        pair.synchronize().await;
    }
}

async fn bucket(
    bucket: &TestBucket,
    dice: &mut Dice,
    over: &CancellationToken,
    counts: &mut Counts,
) {
    while !over.is_cancelled() {
        wait(dice.millis(1000, 10_000), over).await;
        let while_ = dice.millis(100, 10_000);
        let name = match dice.roll(4) {
            0 => {
                bucket.fail("");
                "the bucket fails"
            }
            1 => {
                bucket.fail("PUT");
                "the bucket takes nothing"
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
        wait(while_, over).await;
        bucket.heal();
        *counts.entry(name).or_default() += 1;
    }
}
