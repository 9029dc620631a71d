package main

import "slices"

// table returns all mutants. Each is a mistake that lock libraries have made.
func table() []mutant {
	return slices.Concat(
		root(), kinds(), kindsOnce(), deadlock(), keeper(), store(), sqlite(), redis(), redisOwner(),
		redisReplies(), quorum(), pgadvisory(), postgres(), etcd(), mysql(), server(), access(), fence(),
		proof(), cli(), contract(), sqlMistakes(), locks(), operate(), dashboard(),
	)
}
