//! How peers that cannot reach each other yet exchange their records.
