//! Personas.

use crate::columns::{TableRecord as _, record};
use crate::statement::sql;
use crate::tasks::PageQuery;
use crate::{Conn, StoreError};
use mediagate_model::ids::{AccountId, PersonaId};
use mediagate_model::music::Persona;

record! {
    columns for Persona of "personas" {
        id: "id",
        account: "account_id",
        name: "name",
        description: "description",
        image: "image",
        root_clip: "root_clip_id",
        clips: "clip_ids",
        is_public: "is_public",
        is_public_approved: "is_public_approved",
        upstream: "upstream",
        created_at: "created_at",
    }
}

pub fn insert(conn: &mut Conn<'_>, persona: &Persona) -> Result<(), StoreError> {
    columns!(insert persona into conn)?;
    Ok(())
}

/// The account's persona with this id, unless deleted.
pub fn by_id(
    conn: &mut Conn<'_>,
    id: PersonaId,
    account: AccountId,
) -> Result<Option<Persona>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM personas WHERE id = :id AND account_id = :account AND is_trashed = 0"
        ),
        id,
        account
    )
    .one(conn, Persona::from_row)
}

/// A page of the account's personas, newest first.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    page: PageQuery<PersonaId>,
) -> Result<Vec<Persona>, StoreError> {
    sql!(
        concat!(
            "SELECT ", columns!(), " FROM personas
             WHERE account_id = :account AND id < COALESCE(:after, 'g') AND is_trashed = 0 ORDER BY id DESC
             LIMIT :limit"
        ),
        account,
        after = page.after,
        limit = page.limit
    )
    .all(conn, Persona::from_row)
}

/// Deletes a persona. Returns whether it existed.
pub fn trash(conn: &mut Conn<'_>, id: PersonaId, account: AccountId) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE personas SET is_trashed = 1 WHERE id = :id AND account_id = :account AND is_trashed = 0",
        id,
        account
    )
    .execute(conn)?;
    Ok(changed == 1)
}
