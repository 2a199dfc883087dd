-- ResNet-18 learns from pictures of 64 x 64, 8 a step.
return dofile "scripts/bench/programs/resnet_training.lua"(64, 8)
