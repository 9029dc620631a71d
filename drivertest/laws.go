package drivertest

import "slices"

// laws returns the whole contract, in the order in which it is best understood.
func laws() []law {
	return slices.Concat(roomLaws(), lifeLaws(), ttlLaws(), againLaws(), fenceLaws(), floorLaws(),
		lineLaws(), hintLaws(), wakeLaws(), nameLaws(), valueLaws(), tellLaws(), manyLaws(),
		endRules(), sizeRules())
}
