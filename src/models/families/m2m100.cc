// M2M100: Fan et al. 2021; NLLB: NLLB Team 2022. Pre-norm, with sinusoids that begin behind the padding's id. The first
// token of a translation names its language.
#include "models/families/family.h"

namespace heed::models {

Design read_m2m100(Keys& keys, const Weights& weights) {
  Design design = bart_design(keys, weights);
  Config& config = design.config;
  config.activation = keys.activation("activation_function", "relu");
  config.scale_embedding = keys.flag("scale_embedding", true);
  config.norm_placement = NormPlacement::pre;
  config.final_norm = true;
  config.positions = Positions::sinusoidal;
  config.position_layout = nn::PositionLayout::halves;
  config.first_position = config.padding_id + 1;
  const std::string prefix(prefix_in(weights, "model."));
  design.unused.push_back(prefix + "encoder.embed_positions.*");  // the sinusoids
  design.unused.push_back(prefix + "decoder.embed_positions.*");
  return design;
}

}  // namespace heed::models
