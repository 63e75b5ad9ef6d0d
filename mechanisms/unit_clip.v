(* The sensitivity of clipped totals, with the rounding of the SQL that computes them.

   Covers unit_clip.md, Theorem 2, first half: what the removal of one unit changes in the sums over units has a length of
   at most K C. For any number of cells, units, any whole totals, lengths C and scales K. What ties it to the code, and what
   it does not cover, is in unit_clip.md. Checked by `make proofs`. *)

From Coq Require Import ZArith Reals Lra Lia Psatz List.
From Flocq Require Import Core Relative.

Open Scope R_scope.

(* Doubles: a real rounded to the nearest one, to even where two are. Nothing here reaches the largest one. *)
Definition fl : R -> R := round radix2 (FLT_exp (-1074) 53) ZnearestE.

Notation u := (bpow radix2 (-53)).
Notation least := (bpow radix2 (-1022)).

Section Clip.

Variables K C : Z.        (* the scale and the length *)
Variable n : nat.         (* the number of cells *)
Variable margin : R.      (* 1 - MARGIN, a double *)
Variable double : Z -> R. (* CAST(q AS DOUBLE): of a number of 128 bits, which an engine may round twice *)

Hypothesis scale : (1 <= K)%Z.
Hypothesis length : (1 <= C)%Z.
Hypothesis some : / 2 <= margin.
Hypothesis enough : margin <= 1 - bpow radix2 (-40).
Hypothesis near : forall q, (0 < q)%Z -> IZR q * (1 - bpow radix2 (-50)) <= double q.

(* Sums over cells. *)
Fixpoint over (m : nat) (f : nat -> Z) : Z :=
  match m with O => 0%Z | S k => (over k f + f k)%Z end.

(* The square of the length of a unit's vector. *)
Definition square (y : nat -> Z) : Z := over n (fun i => (y i * y i)%Z).

(* K C (1 - MARGIN) is computed by Python, the root and the ratio by the engine. *)
Definition constant : R := fl (fl (IZR (K * C)) * margin).
Definition factor (q : Z) : R := fl (constant / fl (sqrt (double q))).
Definition size (q v : Z) : R := fl (fl (IZR (Z.abs v)) * factor q).

(* One part of a clipped vector: FLOOR(ABS(v) * factor) with the sign of v, or K v. *)
Definition part (q v : Z) : Z :=
  if (q <=? C * C)%Z then (K * v)%Z
  else if (v <? 0)%Z then (- Zfloor (size q v))%Z else Zfloor (size q v).

Definition clipped (y : nat -> Z) (i : nat) : Z := part (square y) (y i).

(* Rounding. *)

Lemma fl_zero : fl 0 = 0.
Proof. apply round_0, valid_rnd_N. Qed.

Lemma fl_monotone x z : x <= z -> fl x <= fl z.
Proof. apply round_le; [apply FLT_exp_valid; reflexivity | apply valid_rnd_N]. Qed.

Lemma fl_error x : least <= x -> Rabs (fl x - x) <= u * x.
Proof.
  intros large.
  assert (positive : 0 < x) by (apply Rlt_le_trans with least; [apply bpow_gt_0 | exact large]).
  generalize (relative_error_N_FLT radix2 (-1074) 53 (refl_equal _) (fun t => negb (Z.even t)) x).
  rewrite (Rabs_pos_eq x) by lra.
  replace (-1074 + 53 - 1)%Z with (-1022)%Z by reflexivity.
  intros error. specialize (error large). unfold fl.
  replace (bpow radix2 (-53)) with (/ 2 * bpow radix2 (-53 + 1)); [exact error |].
  simpl; lra.
Qed.

Lemma fl_up x z : x <= z -> least <= z -> fl x <= z * (1 + u).
Proof.
  intros below large. generalize (fl_error z large) (fl_monotone x z below). intros error.
  apply Rabs_le_inv in error. lra.
Qed.

Lemma fl_down x z : z <= x -> least <= z -> z * (1 - u) <= fl x.
Proof.
  intros above large. generalize (fl_error z large) (fl_monotone z x above). intros error.
  apply Rabs_le_inv in error. lra.
Qed.

Lemma fl_not_negative x : 0 <= x -> 0 <= fl x.
Proof. intros positive. rewrite <- fl_zero. apply fl_monotone, positive. Qed.

Lemma least_small : least <= / 4.
Proof. replace (/ 4) with (bpow radix2 (-2)) by (simpl; lra). apply bpow_le. lia. Qed.

(* Why the margin is enough: seven roundings and the conversion of the square. *)
Lemma margin_covers :
  margin * (1 + u) ^ 5 <= (1 - bpow radix2 (-50)) * (1 - u).
Proof.
  assert (u <= / 9007199254740992) by (simpl; lra).
  assert (0 <= u) by apply bpow_ge_0.
  assert (bound : (1 + u) ^ 5 <= 1 + 6 * u).
  { set (e := u) in *. nra. }
  apply Rle_trans with ((1 - bpow radix2 (-40)) * (1 + 6 * u)).
  { apply Rmult_le_compat; try lra. apply pow_le; lra. }
  simpl; lra.
Qed.


(* K C is at least 1, and so is what it is compared with. *)
Lemma one_or_more : 1 <= IZR (K * C).
Proof. apply IZR_le. nia. Qed.

Lemma constant_bounds : 0 <= constant <= IZR (K * C) * margin * (1 + u) ^ 2.
Proof.
  generalize one_or_more least_small (bpow_ge_0 radix2 (-53)).
  set (kc := IZR (K * C)). intros large small positive.
  assert (0 <= fl kc) by (apply fl_not_negative; lra).
  unfold constant. fold kc. split.
  - apply fl_not_negative. apply Rmult_le_pos; lra.
  - replace (kc * margin * (1 + u) ^ 2) with (kc * (1 + u) * margin * (1 + u)) by ring.
    apply fl_up.
    + apply Rmult_le_compat_r; [lra |]. apply fl_up; lra.
    + apply Rle_trans with (1 * 1 * / 2); [lra |].
      apply Rmult_le_compat; try lra. apply Rmult_le_compat; lra.
Qed.

(* The root is at most a little too small. *)
Lemma root_down q :
  (0 < q)%Z -> sqrt (IZR q) * (1 - bpow radix2 (-50)) * (1 - u) <= fl (sqrt (double q)).
Proof.
  intros positive. assert (1 <= IZR q) by (apply IZR_le; lia).
  set (w := bpow radix2 (-50)). assert (w = / 1125899906842624) by (unfold w; simpl; lra).
  assert (root : 1 <= sqrt (IZR q)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; lra).
  apply fl_down.
  - apply Rle_trans with (sqrt (IZR q * (1 - w))).
    + rewrite sqrt_mult_alt by lra. apply Rmult_le_compat_l; [lra |].
      rewrite <- (sqrt_Rsqr (1 - w)) at 1 by lra. apply sqrt_le_1_alt. unfold Rsqr. nra.
    + apply sqrt_le_1_alt, near, positive.
  - generalize least_small. intros. nra.
Qed.

(* A part of a unit that is too long, before it is rounded to a whole number. *)
Lemma size_bounds q v :
  (0 < q)%Z -> (q <= 2 ^ 1000)%Z ->
  0 <= size q v <= IZR (Z.abs v) * IZR (K * C) / sqrt (IZR q).
Proof.
  intros positive bounded. generalize one_or_more constant_bounds (root_down q positive) margin_covers.
  set (kc := IZR (K * C)). set (w := bpow radix2 (-50)). set (root := fl (sqrt (double q))).
  intros large [not_negative most] down covers.
  assert (w = / 1125899906842624) by (unfold w; simpl; lra).
  assert (tiny : 0 < u <= / 4) by (split; [apply bpow_gt_0 | simpl; lra]).
  assert (q_one : 1 <= IZR q) by (apply IZR_le; lia).
  assert (s_one : 1 <= sqrt (IZR q)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; lra).
  assert (s_most : sqrt (IZR q) <= bpow radix2 500).
  { apply Rle_trans with (sqrt (bpow radix2 1000)).
    - apply sqrt_le_1_alt. rewrite <- (IZR_Zpower radix2) by lia. apply IZR_le, bounded.
    - right. apply (sqrt_bpow radix2 500). }
  set (s := sqrt (IZR q)) in *.
  set (below := s * (1 - w) * (1 - u)) in *.
  assert (below_positive : 0 < below) by (unfold below; apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat |]; lra).
  set (ratio := kc * margin * (1 + u) ^ 2 / below).
  assert (ratio_large : bpow radix2 (-502) <= ratio).
  { unfold ratio. apply Rle_trans with (/ 4 * / bpow radix2 500).
    - right. rewrite <- bpow_opp. change (/ 4) with (/ IZR (Zpower radix2 2)). rewrite (IZR_Zpower radix2) by lia.
      rewrite <- bpow_opp, <- bpow_plus. reflexivity.
    - apply Rmult_le_compat; try lra.
      + left. apply Rinv_0_lt_compat, bpow_gt_0.
      + apply Rle_trans with (1 * / 2 * 1); [lra |]. apply Rmult_le_compat; try lra.
        * apply Rmult_le_compat; lra.
        * apply pow_R1_Rle. lra.
      + apply Rinv_le; [exact below_positive |]. apply Rle_trans with s; [| exact s_most].
        unfold below. assert (0 <= (1 - w) * (1 - u) <= 1) by nra. nra. }
  assert (small : least <= bpow radix2 (-502)) by (apply bpow_le; lia).
  assert (factor_bounds : 0 <= factor q <= ratio * (1 + u)).
  { unfold factor. fold root. split.
    - apply fl_not_negative. unfold Rdiv. apply Rmult_le_pos; [exact not_negative |].
      left. apply Rinv_0_lt_compat. lra.
    - apply fl_up; [| lra]. unfold ratio, Rdiv. apply Rmult_le_compat; try assumption.
      + left. apply Rinv_0_lt_compat. lra.
      + apply Rinv_le; assumption. }
  destruct (Z.eq_dec v 0) as [nothing | something].
  { subst v. unfold size. simpl Z.abs. rewrite fl_zero, Rmult_0_l, fl_zero. unfold Rdiv. rewrite !Rmult_0_l. lra. }
  assert (v_one : 1 <= IZR (Z.abs v)) by (apply IZR_le; lia).
  set (a := IZR (Z.abs v)) in *.
  assert (a_up : 0 <= fl a <= a * (1 + u)).
  { split; [apply fl_not_negative; lra |]. apply fl_up; [lra |].
    generalize least_small. lra. }
  split.
  - unfold size. fold a. apply fl_not_negative, Rmult_le_pos; lra.
  - unfold size. fold a.
    apply Rle_trans with (a * (1 + u) * (ratio * (1 + u)) * (1 + u)).
    + apply fl_up.
      * apply Rmult_le_compat; lra.
      * apply Rle_trans with (bpow radix2 (-502)); [exact small |].
        assert (1 <= a * (1 + u)) by nra.
        apply Rle_trans with (1 * (ratio * 1)); [lra |].
        assert (0 < ratio) by (apply Rlt_le_trans with (bpow radix2 (-502)); [apply bpow_gt_0 | assumption]).
        apply Rmult_le_compat; try lra; try nra.
    + replace (a * (1 + u) * (ratio * (1 + u)) * (1 + u))
        with (a * kc / s * (margin * (1 + u) ^ 5 / ((1 - w) * (1 - u)))).
      2: { unfold ratio, below. field. repeat split; lra. }
      rewrite <- (Rmult_1_r (a * kc / s)) at 2. apply Rmult_le_compat_l.
      * unfold Rdiv. apply Rmult_le_pos; [apply Rmult_le_pos; lra |]. left. apply Rinv_0_lt_compat. lra.
      * apply Rmult_le_reg_r with ((1 - w) * (1 - u)); [apply Rmult_lt_0_compat; lra |].
        unfold Rdiv. rewrite Rmult_assoc, Rinv_l by (apply Rgt_not_eq, Rmult_lt_0_compat; lra). lra.
Qed.

Lemma part_bound q v :
  (C * C < q)%Z -> (q <= 2 ^ 1000)%Z ->
  IZR (part q v * part q v) <= IZR (v * v) * (IZR (K * C) * IZR (K * C) / IZR q).
Proof.
  intros long bounded. assert (positive : (0 < q)%Z) by nia.
  destruct (size_bounds q v positive bounded) as [not_negative most].
  assert (q_one : 1 <= IZR q) by (apply IZR_le; lia).
  assert (root : 0 < sqrt (IZR q)) by (apply sqrt_lt_R0; lra).
  assert (floor : 0 <= IZR (Zfloor (size q v)) <= size q v).
  { split; [apply IZR_le, Zfloor_lub, not_negative | apply Zfloor_lb]. }
  assert (same : (part q v * part q v = Zfloor (size q v) * Zfloor (size q v))%Z).
  { unfold part. replace (q <=? C * C)%Z with false by (symmetry; apply Z.leb_gt; exact long).
    destruct (v <? 0)%Z; ring. }
  rewrite same, mult_IZR.
  apply Rle_trans with ((IZR (Z.abs v) * IZR (K * C) / sqrt (IZR q)) * (IZR (Z.abs v) * IZR (K * C) / sqrt (IZR q))).
  - apply Rmult_le_compat; lra.
  - right. replace (v * v)%Z with (Z.abs v * Z.abs v)%Z by (rewrite <- Z.abs_mul; apply Z.abs_eq; nia).
    rewrite (mult_IZR (Z.abs v)). assert (both : IZR q = sqrt (IZR q) * sqrt (IZR q)) by (symmetry; apply sqrt_sqrt; lra).
    set (r := sqrt (IZR q)) in *. rewrite both. field. lra.
Qed.

Lemma over_scaled m f (c : R) g :
  (forall i, (i < m)%nat -> IZR (f i) <= IZR (g i) * c) -> IZR (over m f) <= IZR (over m g) * c.
Proof.
  induction m as [| m step]; intros each; simpl; [lra |].
  rewrite !plus_IZR, Rmult_plus_distr_r. apply Rplus_le_compat; [apply step; intros; apply each; lia | apply each; lia].
Qed.

Lemma over_le m f g : (forall i, (i < m)%nat -> (f i <= g i)%Z) -> (over m f <= over m g)%Z.
Proof.
  induction m as [| m step]; intros each; simpl; [lia |].
  specialize (each m (Nat.lt_succ_diag_r m)) as last. assert (over m f <= over m g)%Z by (apply step; intros; apply each; lia). lia.
Qed.

(* A unit's clipped vector is no longer than K C. *)
Theorem clipped_is_short y :
  (square y <= 2 ^ 1000)%Z ->
  (over n (fun i => clipped y i * clipped y i) <= (K * C) * (K * C))%Z.
Proof.
  intros bounded. unfold clipped. set (q := square y) in *.
  destruct (Z_le_gt_dec q (C * C)) as [short | long].
  - apply Z.le_trans with (K * K * q)%Z.
    2: { replace (K * C * (K * C))%Z with (K * K * (C * C))%Z by ring. apply Z.mul_le_mono_nonneg_l; [nia | exact short]. }
    unfold part. replace (q <=? C * C)%Z with true by (symmetry; apply Z.leb_le; exact short).
    unfold q, square. clear. induction n as [| m step]; simpl; [lia | nia].
  - apply le_IZR. apply Rle_trans with (IZR q * (IZR (K * C) * IZR (K * C) / IZR q)).
    + unfold q at 2, square. apply over_scaled. intros i _. apply part_bound; [lia | exact bounded].
    + right. rewrite !mult_IZR. field. apply not_0_IZR. nia.
Qed.

(* The sums over units, clamped part by part. *)

Variable largest : Z.

Definition clamp (x : Z) : Z := Z.max (- largest) (Z.min largest x).

Definition sums (units : list (nat -> Z)) (i : nat) : Z :=
  clamp (fold_right Z.add 0%Z (map (fun y => clipped y i) units)).

Lemma clamp_shrinks a b : ((clamp a - clamp b) * (clamp a - clamp b) <= (a - b) * (a - b))%Z.
Proof.
  assert (Z.abs (clamp a - clamp b) <= Z.abs (a - b))%Z by (unfold clamp; lia).
  rewrite <- (Z.abs_square (clamp a - clamp b)), <- (Z.abs_square (a - b)). nia.
Qed.

(* What one unit moves in the sums, whoever else is there: the sensitivity that the noise is made for. *)
Theorem one_unit_moves_at_most_KC before y after :
  (square y <= 2 ^ 1000)%Z ->
  (over n (fun i => let moved := sums (before ++ y :: after) i - sums (before ++ after) i in moved * moved)
    <= (K * C) * (K * C))%Z.
Proof.
  intros bounded. apply Z.le_trans with (2 := clipped_is_short y bounded).
  apply over_le. intros i _. cbv zeta. unfold sums.
  eapply Z.le_trans; [apply clamp_shrinks |]. apply Z.eq_le_incl.
  rewrite !map_app, !fold_right_app. simpl.
  assert (start : forall l z, fold_right Z.add z l = (fold_right Z.add 0 l + z)%Z).
  { induction l as [| x l step]; intros z; simpl; [reflexivity | rewrite step; ring]. }
  rewrite (start (map _ before)), (start (map _ before) (fold_right _ _ _)). ring.
Qed.

End Clip.

Print Assumptions one_unit_moves_at_most_KC.
