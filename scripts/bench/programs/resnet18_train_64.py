from resnet_training import of_batch

program = of_batch(8)
