/// Calls `$run::<E>($arguments)` with the type of the datatype.
macro_rules! by_datatype {
    ($datatype:expr, $run:ident($($argument:expr),*)) => {
        match $datatype {
            crate::vocabulary::Datatype::INT8 => $run::<i8>($($argument),*),
            crate::vocabulary::Datatype::UINT8 => $run::<u8>($($argument),*),
            crate::vocabulary::Datatype::INT16 => $run::<i16>($($argument),*),
            crate::vocabulary::Datatype::UINT16 => $run::<u16>($($argument),*),
            crate::vocabulary::Datatype::INT32 => $run::<i32>($($argument),*),
            crate::vocabulary::Datatype::UINT32 => $run::<u32>($($argument),*),
            crate::vocabulary::Datatype::INT64 => $run::<i64>($($argument),*),
            crate::vocabulary::Datatype::UINT64 => $run::<u64>($($argument),*),
            crate::vocabulary::Datatype::INT128 => $run::<i128>($($argument),*),
            crate::vocabulary::Datatype::UINT128 => $run::<u128>($($argument),*),
            crate::vocabulary::Datatype::FLOAT => $run::<f32>($($argument),*),
            crate::vocabulary::Datatype::DOUBLE => $run::<f64>($($argument),*),
            crate::vocabulary::Datatype::FLOAT_COMPLEX => $run::<crate::atomic::Complex<f32>>($($argument),*),
            crate::vocabulary::Datatype::DOUBLE_COMPLEX => $run::<crate::atomic::Complex<f64>>($($argument),*),
            _ => Err(crate::vocabulary::Errno::EOPNOTSUPP),
        }
    };
}
pub(crate) use by_datatype;
