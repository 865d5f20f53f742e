//! The requests that make something: their declarations, and how each is read and converted to a
//! domain type.
//!
//! An [`ApiOrder`] defines the endpoint and the scope of an order. They are used by the key check,
//! the fingerprint that identifies repeated requests, quotes and the test of the `OpenAPI`
//! document.

pub mod admin;
pub mod callback;
pub mod chat;
pub mod field_aliases;
pub mod inputs;
pub mod music;
pub mod openrouter;
pub mod persona;
pub mod provenance;
mod separation;
mod song;
pub mod terms;
pub mod upload;
pub mod video_fields;
pub mod videos;
pub mod webhook;

use serde_json::Value;
use utoipa::ToSchema;

use mediagate_core::app::App;
use mediagate_core::domain::personas::NewPersona;
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_core::domain::video::VideoOrder;
use mediagate_model::account::Scope;
use mediagate_model::error::Error;

/// The endpoint of an order.
#[derive(Debug, Clone, Copy)]
pub struct OrderEndpoint {
    /// Its path, without the brand.
    pub path: &'static str,
    /// Whether the path begins with the gateway's brand.
    pub is_branded: bool,
    /// The scope that a key needs.
    pub scope: Scope,
}

impl OrderEndpoint {
    /// The whole path.
    pub fn path(&self, brand: &str) -> String {
        if self.is_branded {
            format!("/{brand}{}", self.path)
        } else {
            self.path.to_owned()
        }
    }
}

/// An order that a caller can send.
pub trait ApiOrder: Sized + Send + 'static {
    /// The endpoint to which it is sent.
    const ENDPOINT: OrderEndpoint;
    /// The request body, as the `OpenAPI` document declares it.
    type RequestBody: ToSchema;
    /// Reads a JSON body.
    fn read(body: &Value) -> Result<Self, Error>;
    /// What decides the result, its price and its owner: equal for two requests that ask for the
    /// same thing in other words. `None` if everything in the body does.
    fn identity(&self, app: &App) -> Option<Value> {
        let _ = app;
        None
    }
}

/// An order that may cost something.
pub trait QuotableOrder: ApiOrder {
    /// The order in the form from which its cost is computed.
    fn quote_subject(self) -> QuotedOrder;
}

/// An endpoint, the name of its request's schema, and the reader of its body.
pub type QuoteEntry = (
    OrderEndpoint,
    fn() -> String,
    fn(&Value) -> Result<QuotedOrder, Error>,
);

/// Every endpoint whose requests can be quoted.
pub const ALL: [QuoteEntry; 7] = [
    entry::<chat::ChatOrder>(),
    entry::<VideoOrder>(),
    entry::<openrouter::OpenRouterVideoOrder>(),
    entry::<openrouter::OpenRouterChatOrder>(),
    entry::<music::MusicOrder>(),
    entry::<NewPersona>(),
    entry::<upload::UploadOrder>(),
];

const fn entry<O: QuotableOrder>() -> QuoteEntry {
    (
        O::ENDPOINT,
        || O::RequestBody::name().into_owned(),
        |body| O::read(body).map(O::quote_subject),
    )
}
