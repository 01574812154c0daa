/// Implements `Clone` by that of these fields, which are all:
/// `clone_struct!([T: Transport] Av['_, T], body)`.
macro_rules! clone_struct {
    ([$($param:tt)*] $Type:ident [$($arg:tt)*], $($field:ident),+) => {
        impl<$($param)*> Clone for $Type<$($arg)*> {
            fn clone(&self) -> Self {
                $Type { $($field: self.$field.clone()),+ }
            }
        }
    };
}

pub(crate) use clone_struct;
