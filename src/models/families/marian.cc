// Marian: Junczys-Dowmunt et al. 2018. The OPUS-MT translators (Tiedemann and Thottingal 2020) are Marians.
#include "models/families/family.h"

namespace heed::models {

Design read_marian(Keys& keys, const Weights& weights) {
  Design design = bart_design(keys, weights);
  design.config.positions = Positions::sinusoidal;
  design.config.position_layout = nn::PositionLayout::paper_halves;
  const std::string prefix(prefix_in(weights, "model."));
  design.unused.push_back(prefix + "encoder.embed_positions.*");  // the sinusoids
  design.unused.push_back(prefix + "decoder.embed_positions.*");
  return design;
}

}  // namespace heed::models
