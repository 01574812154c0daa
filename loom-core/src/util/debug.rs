/// Implements `Debug` with these values:
/// `debug_struct!([T: Transport] Counter['_, T], |it| wait: it.body.wait)`.
macro_rules! debug_struct {
    ($([$($param:tt)*])? $Type:ident $([$($arg:tt)*])?, |$this:ident| $($field:ident: $value:expr),+) => {
        impl $(<$($param)*>)? ::core::fmt::Debug for $Type $(<$($arg)*>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($Type))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_struct;
