package drivertest

import "slices"

// rules returns the whole contract, in a good order for reading.
func rules() []rule {
	return slices.Concat(capacityRules(), lifeRules(), ttlRules(), againRules(), fenceRules(), floorRules(),
		queueRules(), hintRules(), wakeRules(), nameRules(), valueRules(), showRules(), manyRules(),
		endRules(), sizeRules())
}
