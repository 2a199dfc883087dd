-- ResNet-18 learns from pictures of 224 x 224, 2 a step.
return dofile "scripts/bench/programs/resnet_training.lua"(224, 2)
