//! `/api/v1/videos/models` and `/api/v1/models`: what there is, as clients of `OpenRouter` read it.

use axum::Json;
use axum::extract::State;

use crate::auth::{AllowedCaller, AnyKey};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::{IntegerField, OptionalText};
use crate::models::all_models;
use crate::query::Query;
use crate::wire::models::{ModelObject, PriceObject};
use crate::wire::openrouter::{
    OpenRouterModel, OpenRouterModelList, OpenRouterPageLinks, OpenRouterVideoModel,
    OpenRouterVideoModelList,
};
use mediagate_core::app::App;
use mediagate_core::records::Links;
use providers::ModelLimits;

/// Number of models in a page, if the query does not say.
const DEFAULT_LIMIT: i64 = 500;
/// Largest page.
const MAX_LIMIT: i64 = 1000;

/// List the video models, for clients of `OpenRouter`.
#[utoipa::path(get, path = "/api/v1/videos/models", tag = "openrouter",
    responses((status = 200, description = "The video models", body = OpenRouterVideoModelList)))]
pub(super) async fn video_models(
    _: AllowedCaller<AnyKey>,
    State(app): State<App>,
) -> Json<OpenRouterVideoModelList> {
    let catalog = app.models.catalog.load_full();
    let now = app.clock.now();
    let models = catalog
        .models()
        .iter()
        .filter_map(|model| match &model.limits {
            ModelLimits::Video(limits) => {
                let price = model.listed_price(now);
                let price = price.map(|price| PriceObject::new(price, now));
                Some(OpenRouterVideoModel::new(model, limits, price.as_ref()))
            }
            ModelLimits::Music(_) => None,
        });
    Json(OpenRouterVideoModelList {
        data: models.collect(),
    })
}

parameters! {
    /// The parameters of the list of models.
    pub(super) struct OpenRouterModelParameters {
        /// Words of the name or the description
        q: OptionalText<200>,
        /// Inputs that a model accepts, separated by commas: `text`, `image`, `audio`
        input_modalities: OptionalText<200>,
        /// Outputs of which a model makes one, separated by commas: `video`, `audio`; `all` for
        /// every model. Default: `all`
        output_modalities: OptionalText<200>,
        /// Number of models to skip
        offset: IntegerField<0, { i64::MAX }>,
        /// Number of models, 1 to 1000. Default: 500
        limit: IntegerField<1, MAX_LIMIT>,
    }
}

/// List all models, for clients of `OpenRouter`.
#[utoipa::path(get, path = "/api/v1/models", tag = "openrouter", params(OpenRouterModelParameters),
    responses((status = 200, description = "A page of models", body = OpenRouterModelList)))]
pub(super) async fn models(
    allowed: AllowedCaller<AnyKey>,
    Query(query): Query<OpenRouterModelParameters>,
    State(app): State<App>,
) -> Result<Json<OpenRouterModelList>, ErrorResponse> {
    let models = all_models(&app, false).await?.data;
    let models: Vec<ModelObject> = models
        .into_iter()
        .filter(|model| query.accepts(model))
        .collect();
    let total_count = models.len();
    let [offset, limit] = [
        query.offset.unwrap_or(0),
        query.limit.unwrap_or(DEFAULT_LIMIT),
    ]
    .map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let page = models.into_iter().skip(offset).take(limit);
    let next = offset.saturating_add(limit);
    Ok(Json(OpenRouterModelList {
        data: page
            .map(|model| OpenRouterModel::new(model, &allowed.links))
            .collect(),
        links: OpenRouterPageLinks {
            next: (next < total_count).then(|| query.page_url(&allowed.links, next, limit)),
        },
        total_count,
    }))
}

impl OpenRouterModelParameters {
    fn accepts(&self, model: &ModelObject) -> bool {
        let words = self.q.as_deref().unwrap_or_default().to_lowercase();
        let text = format!("{} {}", model.id, model.summary).to_lowercase();
        let mut inputs = list(self.input_modalities.as_deref());
        let mut outputs = list(self.output_modalities.as_deref()).peekable();
        let capabilities = &model.capabilities;
        words.split_whitespace().all(|word| text.contains(word))
            && inputs.all(|input| capabilities.input.contains(&input))
            && (outputs.peek().is_none()
                || outputs.any(|output| output == "all" || capabilities.output.contains(&output)))
    }

    /// The URL of the page with the same filters that begins at `offset`.
    fn page_url(&self, links: &Links, offset: usize, limit: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let filters = [
            ("q", &self.q),
            ("input_modalities", &self.input_modalities),
            ("output_modalities", &self.output_modalities),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("offset", &offset.to_string());
        query.append_pair("limit", &limit.to_string());
        links.endpoint(&format!("/api/v1/models?{}", query.finish()))
    }
}

/// The words of a list that is separated by commas.
fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    let words = text.unwrap_or_default().split(',');
    words.map(str::trim).filter(|word| !word.is_empty())
}
