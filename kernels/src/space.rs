//! Spaces of configurations, written as the product of a few lists.

/// `product!(then! { lists } )`: calls macro `then` with every choice of one item from each list, as
/// `[[[[] first] second] third] …`, the last list varying fastest.
///
/// The choices are nested to the left because a macro can append one item to one token, but cannot
/// repeat two lists inside each other.
macro_rules! product {
    ($then:ident ! { $($list:tt)* }) => {
        $crate::space::product! { @level $then, [[]], $($list)* }
    };
    (@level $then:ident, [$($choice:tt)*],) => {
        $then! { $($choice)* }
    };
    (@level $then:ident, [$($choice:tt)*], $list:tt $($rest:tt)*) => {
        $crate::space::product! { @extend $then, [], [$($choice)*], $list, $($rest)* }
    };
    (@extend $then:ident, $done:tt, [], $list:tt, $($rest:tt)*) => {
        $crate::space::product! { @level $then, $done, $($rest)* }
    };
    (@extend $then:ident, [$($done:tt)*], [$choice:tt $($choices:tt)*], [$($item:tt)*], $($rest:tt)*) => {
        $crate::space::product! { @extend $then, [$($done)* $([$choice $item])*], [$($choices)*], [$($item)*], $($rest)* }
    };
}
pub(crate) use product;
