package main

import "slices"

// table lists the mutants. Each is a mistake that lock libraries have made.
func table() []mutant {
	return slices.Concat(root(), kinds(), kindsOnce(), deadlock(), keeper(), store(), sqlite(), redis(), redisOwner(), redisTold(), quorum(), pgadvisory(), postgres(), fence(), proof(), cli(), contract())
}
