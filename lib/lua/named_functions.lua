-- Names in op of functions of the library, by the module that has them, which is loaded when one of them is
-- first named: those made of operators, which are methods too, and control operators and those from outside.

return {
  methods = {
    functions = [[addcdiv addcmul allclose deg2rad entr erfinv glu gumbel_softmax hardshrink hardsigmoid hardtanh i0
      isclose isin lerp logaddexp2 logit logsigmoid ndtr ndtri normalize pairwise_distance polygamma rad2deg relu6
      signbit sinc softmin softshrink softsign tanhshrink threshold xlog1py xlogy]],
    tensors = [[aminmax block_diag broadcast_tensors cartesian_prod col2im column_stack combinations corrcoef cov
      cumulative_trapezoid dist dstack fliplr flipud histc hstack index_copy index_fill logspace movedim nanquantile std_mean
      take_along_dim tril_indices triu_indices unflatten vander var_mean vstack]],
    places = [[affine_grid max_unpool]],
    ["experts.losses"] = [[load_balance_loss router_z_loss]],
    matrices = [[cholesky_solve eigvalsh matrix_cond matrix_norm matrix_power matrix_rank multi_dot svdvals vecdot]],
  },
  others = {
    control = "cond while_loop scan map fixed_point recursive",
    foreign = "foreign custom",
    kernel = "kernel",
    ["nn.losses"] = "ctc_loss",
  },
}
