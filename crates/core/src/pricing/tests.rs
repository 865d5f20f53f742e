//! Tests of prices: what is charged by each unit for each kind of delivery, and that no delivery,
//! route or price breaks the order of the amounts.

use proptest::prelude::*;
use providers::{StemGroup, StemTarget};
use strum::VariantArray as _;

use super::*;
use mediagate_media::engines;
use mediagate_model::attribution::Attribution;
use mediagate_model::catalog::{Model, ModelBackend, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, AssetId, ClipId, KeyId, RequestId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Bill, Price, PriceSchedule, PriceUnit};
use mediagate_model::task::{
    MediaKind, SeparationMode, SongJob, StemsJob, Task, TaskPayload, TaskState, VideoJob,
};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

const TARGETS: [StemTarget; 4] = [
    StemTarget::Only(StemGroup::Vocals),
    StemTarget::Only(StemGroup::Drums),
    StemTarget::Only(StemGroup::Bass),
    StemTarget::Other,
];

fn price(unit: PriceUnit, micros: i64) -> Price {
    Price {
        unit,
        per_unit: MicroDollars::new(micros),
    }
}

fn film(milliseconds: u64, (width, height): (u32, u32)) -> TaskPayload {
    TaskPayload::VideoV1(VideoJob {
        milliseconds,
        width,
        height,
        ..VideoJob::default()
    })
}

fn separation(milliseconds: u64, stems: usize) -> TaskPayload {
    let outputs = TARGETS.iter().take(stems);
    TaskPayload::StemsV1(StemsJob {
        source: ClipId::new(),
        source_audio: AssetId::new(),
        milliseconds,
        stem_task: SeparationMode::Twelve,
        group_name: String::new(),
        outputs: outputs.map(|target| (ClipId::new(), *target)).collect(),
        generation_type: String::new(),
        make_instrumental: false,
        title: String::new(),
    })
}

fn song(clips: usize) -> TaskPayload {
    TaskPayload::SongV1(SongJob {
        task: "generate".into(),
        fields: serde_json::Map::new(),
        has_unknown_fields: false,
        clips: Vec::new(),
        persona: None,
        outputs: (0..clips).map(|_| ClipId::new()).collect(),
        generation_type: String::new(),
        make_instrumental: false,
        title: String::new(),
    })
}

/// A model with this price, and with routes `a`, `b`, … at these.
fn model(own_price: Option<Price>, routes: &[Option<Price>]) -> Model {
    let mut model = engines::embedded_models().remove(0);
    let limits = model.limits.clone();
    let route = |(name, price): (char, &Option<Price>)| Route {
        provider: name.into(),
        model: "m".into(),
        names: providers::ModelNames::ANY,
        weight: None,
        price: price.map(PriceSchedule::always),
        cost: price.map(PriceSchedule::always),
        refusals: providers::cost::RefusalTerms::default(),
        limits: limits.clone(),
        max_running: None,
        per_minute: None,
        extra: serde_json::Map::new(),
    };
    model.price = own_price.map(PriceSchedule::always);
    model.backend = ModelBackend::Routes(('a'..).zip(routes).map(route).collect());
    model
}

/// A task that was accepted at this quotation.
fn task(payload: TaskPayload, quotation: &OrderQuotation) -> Task {
    let hold = quotation.clone().hold();
    Task {
        id: TaskId::new(),
        account: AccountId::new(),
        key: KeyId::new(),
        model: "film".into(),
        asked_model: "film".into(),
        provider: "a".into(),
        fingerprint: String::new(),
        payload,
        state: TaskState::Running,
        progress: 0,
        progress_is_guess: false,
        cost: hold.reserved,
        reserved: hold.reserved,
        money: hold.money,
        tariff: hold.tariff,
        bill: None,
        attribution: Attribution::default(),
        request: RequestId::generate().into(),
        approval: None,
        identical_task: None,
        callback: None,
        trace: None,
        attempts: 1,
        deaths: None,
        expected_bytes: None,
        created_at: NOW,
        started_at: None,
        finished_at: None,
        failure: None,
        output: None,
        event_seq: 1,
    }
}

/// The task of an order at this price, in this process.
fn priced(order: OrderedWork, payload: TaskPayload, price: Price) -> Task {
    let model = model(Some(price), &[]);
    let quotation = OrderQuotation::of(&model, QuotedQuantity::of(order), false, NOW);
    task(payload, &quotation)
}

fn delivered_film(milliseconds: u64, pixels: u64) -> DeliveredWork {
    DeliveredWork::Film {
        milliseconds: Some(milliseconds),
        pixels: Some(pixels),
    }
}

const NOT_MEASURED: DeliveredWork = DeliveredWork::Film {
    milliseconds: None,
    pixels: None,
};

fn delivered_song(clips: ClipLengths, complete: usize) -> DeliveredWork {
    let terms = SongTerms {
        clips: complete,
        least_clip_ms: 1_000,
    };
    DeliveredWork::Song { clips, terms }
}

#[test]
fn a_film_is_charged_by_what_was_made_of_the_order() {
    let payload = film(5_000, (1000, 1000));
    let order = OrderedWork::of(&payload);
    for (delivered, by_second, by_film, by_size) in [
        (delivered_film(5_000, 1_000_000), 500_000, 100_000, 500_000),
        (delivered_film(5_040, 1_000_000), 500_000, 100_000, 500_000),
        (delivered_film(4_750, 1_000_000), 500_000, 100_000, 500_000),
        (delivered_film(4_749, 1_000_000), 470_000, 100_000, 470_000),
        (delivered_film(2_080, 500_000), 200_000, 100_000, 100_000),
        (delivered_film(12_000, 9_000_000), 500_000, 100_000, 500_000),
        (NOT_MEASURED, 500_000, 100_000, 500_000),
        // A moment counts as a tenth of a second. Files that do not know their length or size say 0.
        (delivered_film(60, 1_000_000), 10_000, 100_000, 10_000),
        (delivered_film(0, 0), 500_000, 100_000, 500_000),
    ] {
        for (unit, micros) in [
            (PriceUnit::Second, by_second),
            (PriceUnit::Video, by_film),
            (PriceUnit::Task, by_film),
            (PriceUnit::MegapixelSecond, by_size),
        ] {
            let task = priced(order, payload.clone(), price(unit, 100_000));
            let bill = bill(&task, &delivered, None).unwrap();
            assert_eq!(bill.cost.get(), micros, "{unit} {delivered:?}");
            assert_eq!(bill.partial, None);
        }
    }
}

#[test]
fn only_stems_that_were_made_are_charged() {
    let payload = separation(120_000, 4);
    let order = OrderedWork::of(&payload);
    for (made, by_minute, by_stem, by_task) in [
        (4, 200_000, 400_000, 100_000),
        (3, 150_000, 300_000, 75_000),
    ] {
        let delivered = DeliveredWork::Stems(TARGETS[..made].to_vec());
        for (unit, micros) in [
            (PriceUnit::AudioMinute, by_minute),
            (PriceUnit::Stem, by_stem),
            (PriceUnit::Task, by_task),
        ] {
            let task = priced(order, payload.clone(), price(unit, 100_000));
            let bill = bill(&task, &delivered, None).unwrap();
            assert_eq!(bill.cost.get(), micros, "{unit} {made}");
            let missing = (made < 4).then_some("3 of 4 stems were made; missing: Other.");
            assert_eq!(bill.partial.as_deref(), missing);
        }
    }
}

#[test]
fn a_song_is_charged_by_its_own_length_and_number() {
    let payload = song(2);
    let order = OrderedWork::Song {
        clips: 2,
        longest_clip_ms: 90_000,
    };
    let measured = |lengths: &[u64]| ClipLengths::Measured(lengths.to_vec());
    for (clips, complete, by_minute, by_task, missing) in [
        (measured(&[60_000, 66_000]), 2, 210_000, 100_000, None),
        // A third clip was not ordered.
        (
            measured(&[60_000, 66_000, 90_000]),
            2,
            210_000,
            100_000,
            None,
        ),
        // More than was reserved.
        (measured(&[120_000, 120_000]), 2, 300_000, 100_000, None),
        (
            measured(&[60_000]),
            2,
            100_000,
            50_000,
            Some("1 of 2 clips were made."),
        ),
        // The route makes only one.
        (measured(&[60_000]), 1, 100_000, 100_000, None),
        // Nobody measured them, or they have no length: a second each.
        (measured(&[0, 0]), 2, 3_333, 100_000, None),
        (ClipLengths::Counted(2), 2, 3_333, 100_000, None),
        (ClipLengths::Counted(3), 1, 1_667, 100_000, None),
    ] {
        let delivered = delivered_song(clips, complete);
        for (unit, micros) in [
            (PriceUnit::AudioMinute, by_minute),
            (PriceUnit::Task, by_task),
        ] {
            let task = priced(order, payload.clone(), price(unit, 100_000));
            let bill = bill(&task, &delivered, None).unwrap();
            assert_eq!(bill.cost.get(), micros, "{unit} {delivered:?}");
            assert_eq!(bill.partial.as_deref(), missing);
        }
    }
}

#[test]
fn a_cancelled_job_is_charged_for_what_is_known_and_else_for_all_of_it() {
    let payload = separation(120_000, 4);
    let order = OrderedWork::of(&payload);
    let task = priced(order, payload, price(PriceUnit::Stem, 100_000));
    let note = |bill: &Option<Bill>| bill.as_ref().unwrap().partial.clone().unwrap();
    let cost = |bill: &Option<Bill>| bill.as_ref().unwrap().cost.get();
    let route = ("embedded", "m");

    let three = DeliveredWork::Stems(TARGETS[..3].to_vec());
    let made = cancelled_bill(&task, Some(&three), route);
    assert_eq!(cost(&made), 300_000);
    assert!(note(&made).ends_with("completed it anyway. 3 of 4 parts were made."));
    let paid = cancelled_bill(&task, None, route);
    assert_eq!(cost(&paid), 400_000);
    assert!(note(&paid).ends_with("completed it anyway."));
    let unknown = unknown_bill(&task, route);
    assert_eq!(cost(&unknown), 400_000);
    assert!(note(&unknown).contains("unknown whether"));
}

#[test]
fn a_route_without_a_known_price_costs_what_was_reserved() {
    let payload = film(5_000, (1000, 1000));
    let quantity = QuotedQuantity::of(OrderedWork::of(&payload));
    let model = model(None, &[Some(price(PriceUnit::Second, 100_000)), None]);
    let quotation = OrderQuotation::of(&model, quantity, false, NOW);
    assert_eq!(quotation.reserve().get(), 500_000);
    let task = task(payload, &quotation);
    for (route, has_price) in [("a", true), ("b", false), ("renamed", false)] {
        let (price, quoted) = quotation.cost_by(Some((route, "m")));
        assert_eq!((price.is_some(), quoted.get()), (has_price, 500_000));
        let bill = bill(&task, &NOT_MEASURED, Some((route, "m"))).unwrap();
        assert_eq!((bill.price, bill.cost.get()), (price, 500_000));
    }
}

#[test]
fn a_delivery_beyond_the_order_counts_for_the_provider_only() {
    let payload = film(4_000, (1000, 1000));
    let order = OrderedWork::of(&payload);
    let task = priced(order, payload, price(PriceUnit::Second, 100_000));
    for (delivered, is_longer, is_larger) in [
        (delivered_film(4_250, 1_200_000), false, false),
        (delivered_film(4_251, 1_000_000), true, false),
        (delivered_film(4_000, 1_200_001), false, true),
        (delivered_film(1_000, 9_000_000), false, true),
        (NOT_MEASURED, false, false),
    ] {
        let surplus = DeliverySurplus::of(&task, &delivered);
        assert_eq!(
            (surplus.is_longer, surplus.is_larger),
            (is_longer, is_larger)
        );
        let bill = bill(&task, &delivered, None).unwrap();
        assert_eq!(bill.delivered.is_some(), surplus.is_some(), "{delivered:?}");
    }
    let payload = song(1);
    let order = OrderedWork::Song {
        clips: 1,
        longest_clip_ms: 60_000,
    };
    let task = priced(order, payload, price(PriceUnit::AudioMinute, 100_000));
    for (lengths, is_longer, has_more_clips) in [
        (vec![60_250], false, false),
        (vec![60_251], true, false),
        (vec![30_000, 90_000], false, true),
    ] {
        let made: u64 = lengths.iter().sum();
        let delivered = delivered_song(ClipLengths::Measured(lengths), 1);
        let surplus = DeliverySurplus::of(&task, &delivered);
        assert_eq!(
            (surplus.is_longer, surplus.has_more_clips),
            (is_longer, has_more_clips)
        );
        let paid = DeliveredQuantity::of(&task, Some(&delivered)).work();
        assert_eq!(paid.milliseconds, made);
    }
}

/// An order of any kind, with any delivery that may follow it.
#[derive(Debug, Clone)]
struct AnyOrder {
    order: OrderedWork,
    payload: TaskPayload,
    kind: MediaKind,
    delivered: DeliveredWork,
}

/// A number that a file states: often none, or next to none.
fn any_measure(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..100_u64, 0..most]
}

fn any_film() -> impl Strategy<Value = AnyOrder> {
    let made = (
        proptest::option::of(any_measure(40_000)),
        proptest::option::of(any_measure(9_000_000)),
    );
    ((1..30_000_u64, 1..2_000_u32, 1..2_000_u32), made).prop_map(
        |((length, width, height), (milliseconds, pixels))| {
            let payload = film(length, (width, height));
            AnyOrder {
                order: OrderedWork::of(&payload),
                payload,
                kind: MediaKind::Video,
                delivered: DeliveredWork::Film {
                    milliseconds,
                    pixels,
                },
            }
        },
    )
}

fn any_separation() -> impl Strategy<Value = AnyOrder> {
    let made = proptest::sample::subsequence(TARGETS.to_vec(), 1..=4);
    (1..600_000_u64, 1..=4_usize, made).prop_map(|(length, stems, made)| {
        let payload = separation(length, stems);
        AnyOrder {
            order: OrderedWork::of(&payload),
            payload,
            kind: MediaKind::Music,
            delivered: DeliveredWork::Stems(made),
        }
    })
}

fn any_song() -> impl Strategy<Value = AnyOrder> {
    let lengths = proptest::collection::vec(any_measure(600_000), 1..5);
    let clips = prop_oneof![
        lengths.prop_map(ClipLengths::Measured),
        (1..5_usize).prop_map(ClipLengths::Counted),
    ];
    (1..4_usize, 1..600_000_u64, clips, 1..4_usize).prop_map(
        |(ordered, longest_clip_ms, clips, complete)| AnyOrder {
            order: OrderedWork::Song {
                clips: ordered,
                longest_clip_ms,
            },
            payload: song(ordered),
            kind: MediaKind::Music,
            delivered: delivered_song(clips, complete.min(ordered)),
        },
    )
}

fn any_order() -> impl Strategy<Value = AnyOrder> {
    prop_oneof![any_film(), any_separation(), any_song()]
}

/// A price in any unit, of up to a dollar.
fn any_price() -> impl Strategy<Value = Price> {
    let unit = proptest::sample::select(PriceUnit::VARIANTS);
    (unit, 0..1_000_000_i64).prop_map(|(unit, micros)| price(unit, micros))
}

/// A model's price and those of two routes.
fn any_prices() -> impl Strategy<Value = [Option<Price>; 3]> {
    let price = || proptest::option::of(any_price());
    (price(), price(), price()).prop_map(|(own, first, second)| [own, first, second])
}

/// One of the routes, one that the task does not know, or this process.
fn any_route() -> impl Strategy<Value = Option<&'static str>> {
    proptest::sample::select(vec![None, Some("a"), Some("b"), Some("renamed")])
}

/// The task of an order, with the quotation it was accepted at.
fn accepted(order: &AnyOrder, prices: [Option<Price>; 3]) -> (Task, OrderQuotation) {
    let [own, routes @ ..] = prices.map(|price| price.filter(|price| price.unit.fits(order.kind)));
    let model = model(own, &routes);
    let quantity = QuotedQuantity::of(order.order);
    let quotation = OrderQuotation::of(&model, quantity, false, NOW);
    (task(order.payload.clone(), &quotation), quotation)
}

/// All bills that may follow a delivery.
fn bills(task: &Task, delivered: &DeliveredWork, route: Option<&'static str>) -> [Option<Bill>; 4] {
    let route = route.map(|provider| (provider, "m"));
    let hosted = route.unwrap_or(("a", "m"));
    [
        bill(task, delivered, route),
        cancelled_bill(task, Some(delivered), hosted),
        cancelled_bill(task, None, hosted),
        unknown_bill(task, hosted),
    ]
}

proptest! {
    #[test]
    fn no_more_is_charged_than_reserved_and_no_more_reserved_than_quoted(
        order in any_order(), prices in any_prices(), route in any_route(),
    ) {
        let (task, quotation) = accepted(&order, prices);
        prop_assert!(task.reserved <= quotation.reserve());
        let (_, quoted) = quotation.cost_by(route.map(|provider| (provider, "m")));
        prop_assert!(quoted <= quotation.reserve());
        let asked = QuotedQuantity::of(order.order).work();
        for bill in bills(&task, &order.delivered, route).into_iter().flatten() {
            prop_assert!(bill.cost >= MicroDollars::ZERO);
            prop_assert!(bill.cost <= task.reserved, "{bill:?}");
            let billed = bill.quantity;
            prop_assert!(billed.milliseconds <= asked.milliseconds, "{bill:?}");
            prop_assert!(billed.pixels <= asked.pixels, "{bill:?}");
            prop_assert!(billed.parts <= asked.parts, "{bill:?}");
        }
    }

    #[test]
    fn nothing_that_a_priced_route_made_is_free(
        order in any_order(), prices in any_prices(), route in any_route(),
    ) {
        // A price at which even a pixel of a millisecond costs something.
        let high = |price: Price| Price { per_unit: MicroDollars::new(1_000_000_000), ..price };
        let prices = prices.map(|price| price.map(high));
        let (task, _) = accepted(&order, prices);
        let has_price = task.tariff.is_some();
        for bill in bills(&task, &order.delivered, route) {
            prop_assert_eq!(bill.is_some(), has_price);
            prop_assert!(bill.is_none_or(|bill| bill.cost > MicroDollars::ZERO));
        }
    }

    #[test]
    fn a_task_is_without_a_bill_only_if_nothing_was_reserved(
        order in any_order(), prices in any_prices(), route in any_route(),
    ) {
        let (task, _) = accepted(&order, prices);
        let is_free = task.money == ChargeState::Free;
        prop_assert_eq!(is_free, task.reserved == MicroDollars::ZERO);
        for bill in bills(&task, &order.delivered, route) {
            prop_assert_eq!(bill.is_none(), is_free);
        }
    }
}
