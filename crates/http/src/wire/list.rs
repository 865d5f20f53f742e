//! The shape of all lists.

use serde::Serialize;
use utoipa::ToSchema;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    /// Always `list`.
    pub object: &'static str,
    /// The items, newest first by default.
    pub data: Vec<T>,
    /// Whether more items follow `last_id`.
    pub has_more: bool,
    /// Id of the first item.
    #[schema(required = true)]
    pub first_id: Option<String>,
    /// Id of the last item. Pass it as `after` to get the next page.
    #[schema(required = true)]
    pub last_id: Option<String>,
}

impl<T: ToSchema> List<T> {
    /// `id` returns an item's id.
    pub fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self {
            object: "list",
            data,
            has_more,
            first_id,
            last_id,
        }
    }
}
