//! Any answer to a look-up is read or gives an error.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use providers::{Adapter, Call, ProviderResponse, ProviderSettings};
use serde_json::{Map, Value};

use crate::suite::Case;

/// Any JSON, in which the fields of job lists are frequent.
fn any_json() -> impl Strategy<Value = Value> {
    let words = [
        "a lighthouse in a storm",
        "01970000-0000-4000-8000-00000000c0de",
        "sora-2",
        "2026-11-21T12:00:00Z",
        "9999999-99-99T99:99:99+99:99",
        "",
        "é",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let names = [
        "data",
        "items",
        "results",
        "generations",
        "id",
        "name",
        "prompt",
        "model",
        "input",
        "request",
        "created_at",
        "createdAt",
        "has_more",
        "next",
        "last_id",
        "total",
        "code",
        "task_id",
        "task_info",
        "external_task_id",
        "seed",
        "queue_running",
        "queue_pending",
        "01970000-0000-4000-8000-00000000c0de",
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let member = (prop::sample::select(names.to_vec()), inner.clone());
        let members = prop::collection::vec(member, 0..6).prop_map(|members| {
            let members = members
                .into_iter()
                .map(|(name, value)| (name.into(), value));
            Value::Object(members.collect::<Map<_, _>>())
        });
        prop_oneof![
            members,
            prop::collection::vec(inner, 0..6).prop_map(Value::from)
        ]
    })
}

/// Every case with its adapter.
static ADAPTERS: LazyLock<Vec<(Case, Arc<dyn Adapter>)>> = LazyLock::new(|| {
    let with_adapter = |case: Case| {
        let settings =
            ProviderSettings::new("any", case.options.as_object().cloned().unwrap_or_default());
        let protocol = providers::protocol(case.protocol).unwrap();
        let adapter = (protocol.build)(&settings).unwrap();
        (case, adapter)
    };
    crate::cases().into_iter().map(with_adapter).collect()
});

proptest! {
    #[test]
    fn look_ups_read_any_answer(
        status in prop_oneof![Just(200_u16), 100_u16..600],
        body in any_json(),
        carried_data in any_json(),
        since in any::<u32>(),
    ) {
        let since = UNIX_EPOCH + Duration::from_secs(since.into());
        let answer = ProviderResponse::from_json(status, &body);
        for (case, adapter) in ADAPTERS.iter() {
            let supports_lookup = adapter.find(&case.order, since).is_some();
            for stage in ["find", "find in queue", "find again"] {
                let context = Call::get(stage, "").with_carried_data(carried_data.clone()).context();
                let lookup = adapter.read_lookup(&case.order, since, &context, &answer);
                prop_assert!(supports_lookup || lookup.is_err(), "{}", case.name);
            }
        }
    }
}
