//! Operands.

use super::{Name, Parser};
use crate::ast::*;
use crate::error::Result;
use crate::lex::Token;

/// The scalar type that `.word` names.
pub(super) fn scalar_type(word: &str) -> Option<Type> {
    Some(match word {
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "b128" => Type::B128,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::Bf16,
        "bf16x2" => Type::Bf16x2,
        "tf32" => Type::Tf32,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "e4m3" => Type::E4m3,
        "e5m2" => Type::E5m2,
        "pred" => Type::Pred,
        _ => return None,
    })
}

fn special(name: &str, axis: Option<u8>) -> Option<Special> {
    Some(match (name, axis) {
        ("%tid", Some(axis)) => Special::Tid(axis),
        ("%ntid", Some(axis)) => Special::Ntid(axis),
        ("%ctaid", Some(axis)) => Special::Ctaid(axis),
        ("%nctaid", Some(axis)) => Special::Nctaid(axis),
        ("%clusterid", Some(axis)) => Special::ClusterId(axis),
        ("%nclusterid", Some(axis)) => Special::NclusterId(axis),
        ("%cluster_ctaid", Some(axis)) => Special::ClusterCtaid(axis),
        ("%cluster_nctaid", Some(axis)) => Special::ClusterNctaid(axis),
        ("%cluster_ctarank", None) => Special::ClusterCtarank,
        ("%cluster_nctarank", None) => Special::ClusterNctarank,
        ("%is_explicit_cluster", None) => Special::IsExplicitCluster,
        ("%laneid", None) => Special::LaneId,
        ("%warpid", None) => Special::WarpId,
        ("%nwarpid", None) => Special::NwarpId,
        ("%smid", None) => Special::SmId,
        ("%nsmid", None) => Special::NsmId,
        ("%gridid", None) => Special::GridId,
        ("%lanemask_eq", None) => Special::LanemaskEq,
        ("%lanemask_lt", None) => Special::LanemaskLt,
        ("%lanemask_le", None) => Special::LanemaskLe,
        ("%lanemask_gt", None) => Special::LanemaskGt,
        ("%lanemask_ge", None) => Special::LanemaskGe,
        ("%clock", None) => Special::Clock,
        ("%clock64", None) => Special::Clock64,
        ("%globaltimer", None) => Special::GlobalTimer,
        ("%globaltimer_lo", None) => Special::GlobalTimerLo,
        ("%dynamic_smem_size", None) => Special::DynamicSharedBytes,
        ("%total_smem_size", None) => Special::TotalSharedBytes,
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    pub(super) fn comma(&mut self) -> Result<()> {
        self.expect(',')
    }

    /// A general register, as a destination or inside a vector.
    pub(super) fn reg(&mut self) -> Result<Reg> {
        let name = self.word("a register")?;
        match self.register(name)? {
            Some(Name::General(reg)) => Ok(reg),
            Some(Name::Predicate(_)) => Err(self.error_before(format!("`{name}` is a predicate register"))),
            None => Err(self.error_before(format!("register `{name}` is not declared"))),
        }
    }

    /// A general register, or the sink `_`.
    pub(super) fn reg_or_sink(&mut self) -> Result<Option<Reg>> {
        if self.peek() == Some(Token::Word("_")) {
            self.at += 1;
            return Ok(None);
        }
        self.reg().map(Some)
    }

    pub(super) fn pred(&mut self) -> Result<Pred> {
        let name = self.word("a predicate register")?;
        match self.register(name)? {
            Some(Name::Predicate(pred)) => Ok(pred),
            Some(Name::General(_)) => Err(self.error_before(format!("`{name}` is not a predicate register"))),
            None => Err(self.error_before(format!("predicate register `{name}` is not declared"))),
        }
    }

    /// A predicate register, or the sink `_`.
    pub(super) fn pred_or_sink(&mut self) -> Result<Option<Pred>> {
        if self.peek() == Some(Token::Word("_")) {
            self.at += 1;
            return Ok(None);
        }
        self.pred().map(Some)
    }

    /// `p` or `!p`.
    pub(super) fn pred_use(&mut self) -> Result<PredUse> {
        let negated = self.eat('!');
        Ok(PredUse { pred: self.pred()?, negated })
    }

    /// `p`, `!p`, or a constant: 0 is false.
    pub(super) fn pred_operand(&mut self) -> Result<PredOperand> {
        match self.signed_integer() {
            Some(value) => Ok(PredOperand::Const(value != 0)),
            None => self.pred_use().map(PredOperand::Use),
        }
    }

    /// An integer with an optional sign, if one comes next.
    fn signed_integer(&mut self) -> Option<u64> {
        match (self.peek(), self.peek_after()) {
            (Some(Token::Integer(value)), _) => {
                self.at += 1;
                Some(value)
            }
            (Some(Token::Punctuation('-')), Some(Token::Integer(value))) => {
                self.at += 2;
                Some(value.wrapping_neg())
            }
            _ => None,
        }
    }

    pub(super) fn constant(&mut self, wanted: &str) -> Result<u64> {
        self.signed_integer().ok_or_else(|| self.unexpected(wanted))
    }

    /// A source: register, literal, special register, or the address of a symbol.
    pub(super) fn operand(&mut self) -> Result<Operand> {
        if let Some(value) = self.signed_integer() {
            return Ok(Operand::Int(value));
        }
        if let (Some(Token::Punctuation('-')), Some(Token::Decimal(text))) = (self.peek(), self.peek_after()) {
            self.at += 2;
            return self.decimal(text, true);
        }
        match self.next()? {
            Token::F32(bits) => Ok(Operand::F32(bits)),
            Token::F64(bits) => Ok(Operand::F64(bits)),
            Token::Decimal(text) => self.decimal(text, false),
            Token::Word("WARP_SZ") => Ok(Operand::Int(32)),
            Token::Word(name) => self.named(name),
            other => Err(self.error_before(format!("expected an operand, found {other}"))),
        }
    }

    fn decimal(&self, text: &str, negative: bool) -> Result<Operand> {
        let value: f64 = text.parse().map_err(|_| self.error_before(format!("`{text}` is not a number")))?;
        Ok(Operand::F64(if negative { -value } else { value }.to_bits()))
    }

    fn named(&mut self, name: &'a str) -> Result<Operand> {
        match self.register(name)? {
            Some(Name::General(reg)) => return Ok(Operand::Reg(reg)),
            Some(Name::Predicate(_)) => {
                return Err(self.error_before(format!("`{name}` is a predicate register; a value is wanted")));
            }
            None => {}
        }
        if let Some(symbol) = self.symbol(name) {
            let offset = self.offset()?;
            return Ok(Operand::Address(symbol, offset));
        }
        let axis = match self.peek() {
            Some(Token::Dotted("x")) => Some(0),
            Some(Token::Dotted("y")) => Some(1),
            Some(Token::Dotted("z")) => Some(2),
            _ => None,
        };
        let found = special(name, axis);
        if found.is_some() && axis.is_some() {
            self.at += 1;
        }
        found.map(Operand::Special).ok_or_else(|| self.error_before(format!("`{name}` is not declared")))
    }

    /// `+4`, `+-4` or `-4`, if it comes next.
    fn offset(&mut self) -> Result<i64> {
        if self.eat('+') {
            return Ok(self.constant("an offset")? as i64);
        }
        if self.peek() == Some(Token::Punctuation('-')) {
            return Ok(self.constant("an offset")? as i64);
        }
        Ok(0)
    }

    /// What stands between the brackets of an address.
    pub(super) fn address_inside(&mut self) -> Result<Address> {
        let base = self.operand()?;
        match base {
            Operand::Reg(_) | Operand::Int(_) => Ok(Address { base, offset: self.offset()? }),
            Operand::Address(symbol, offset) => Ok(Address { base: Operand::Address(symbol, 0), offset }),
            _ => Err(self.error_before("expected a register, symbol or number as an address")),
        }
    }

    /// `[base+offset]`
    pub(super) fn address(&mut self) -> Result<Address> {
        self.expect('[')?;
        let address = self.address_inside()?;
        self.expect(']')?;
        Ok(address)
    }

    /// `[map, {x, y}]` with `dimensions` coordinates.
    pub(super) fn tensor_address(&mut self, dimensions: usize) -> Result<TensorAddress> {
        self.expect('[')?;
        let map = self.address_inside()?;
        self.comma()?;
        let coordinates = self.operands_in_braces()?;
        self.expect(']')?;
        if coordinates.len() != dimensions {
            return Err(self.error_before(format!(
                "a {dimensions}-dimensional copy takes {dimensions} coordinates, not {}",
                coordinates.len()
            )));
        }
        Ok(TensorAddress { map, coordinates })
    }

    fn in_braces<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect('{')?;
        let mut out = vec![item(self)?];
        while self.eat(',') {
            out.push(item(self)?);
        }
        self.expect('}')?;
        Ok(out)
    }

    pub(super) fn operands_in_braces(&mut self) -> Result<Vec<Operand>> {
        self.in_braces(Self::operand)
    }

    pub(super) fn regs_in_braces(&mut self) -> Result<Vec<Reg>> {
        self.in_braces(Self::reg)
    }

    pub(super) fn at_brace(&self) -> bool {
        self.peek() == Some(Token::Punctuation('{'))
    }

    /// `{a, _, c}` with sinks, or one register.
    pub(super) fn destinations(&mut self) -> Result<Vec<Option<Reg>>> {
        if self.at_brace() { self.in_braces(Self::reg_or_sink) } else { Ok(vec![self.reg_or_sink()?]) }
    }

    /// `{a, b}` or one operand.
    pub(super) fn sources(&mut self) -> Result<Vec<Operand>> {
        if self.at_brace() { self.operands_in_braces() } else { Ok(vec![self.operand()?]) }
    }

    /// `{a, b}` or one register.
    pub(super) fn regs(&mut self) -> Result<Vec<Reg>> {
        if self.at_brace() { self.regs_in_braces() } else { Ok(vec![self.reg()?]) }
    }
}
