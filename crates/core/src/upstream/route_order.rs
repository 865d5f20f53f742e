//! The order of routes, and the choice of credentials.

use std::sync::Arc;

use crate::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::catalog::Route;

/// The order in which one task tries the routes: first those with a weight, at random by weight,
/// then the others as they are configured. `random` returns numbers from 0 to 1.
pub fn weighted_order<'a>(routes: &'a [Route], mut random: impl FnMut() -> f64) -> Vec<&'a Route> {
    let mut weighted: Vec<(f64, &'a Route)> = Vec::new();
    let mut others = Vec::new();
    for route in routes {
        match route.weight {
            Some(0) => {}
            Some(weight) => {
                // Exponential keys: each route has the smallest with a probability proportional to
                // its weight (Efraimidis, Spirakis 2006).
                let key = -random().max(f64::MIN_POSITIVE).ln() / f64::from(weight);
                weighted.push((key, route));
            }
            None => others.push(route),
        }
    }
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut order: Vec<&Route> = weighted.into_iter().map(|(_, route)| route).collect();
    order.extend(others);
    order
}

/// The credentials of a provider, the one with the fewest jobs first.
pub fn by_load(site: &ProviderSite) -> Vec<Arc<ProviderCredential>> {
    let mut credentials = site.credentials.clone();
    credentials.sort_by_key(|credential| credential.open_jobs());
    credentials
}

#[cfg(test)]
mod tests {
    use providers::{ModelLimits, MusicLimits, SongLimits};

    use super::*;

    fn route(name: &str, weight: Option<u32>) -> Route {
        Route {
            provider: name.into(),
            model: "m".into(),
            names: providers::ModelNames::ANY,
            weight,
            price: None,
            cost: None,
            refusals: providers::cost::RefusalTerms::default(),
            limits: ModelLimits::Music(MusicLimits {
                stems: None,
                tasks: Vec::new(),
                personas: false,
                songs: SongLimits::API_DEFAULT,
            }),
            max_running: None,
            per_minute: None,
            extra: serde_json::Map::new(),
        }
    }

    #[test]
    fn routes_without_weights_keep_their_order() {
        let routes = [route("a", None), route("b", None)];
        let order = weighted_order(&routes, || 0.5);
        assert_eq!(
            order
                .iter()
                .map(|route| route.provider.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
    }

    #[test]
    fn weights_share_the_work() {
        let routes = [
            route("a", Some(3)),
            route("b", Some(1)),
            route("never", Some(0)),
            route("last", None),
        ];
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_precision_loss, reason = "a random number for a test")]
            let number = (state >> 11) as f64 / (1_u64 << 53) as f64;
            number
        };
        let mut first = 0;
        for _ in 0..4000 {
            let order = weighted_order(&routes, &mut random);
            assert_eq!((order.len(), order[2].provider.as_str()), (3, "last"));
            first += u32::from(order[0].provider == "a");
        }
        assert!((2850..3150).contains(&first), "{first}");
    }
}
