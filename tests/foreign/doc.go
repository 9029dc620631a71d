// Package foreign holds tests only: lock clients of others, and distlock, take turns on the same Redis key. It is a
// module of its own so that these clients never become dependencies of the product.
//
// Each client runs in a process of its own and does what the test tells it, line by line:
//
//	take KEY TTL               try once                               yes | no
//	await KEY TTL PAUSE LIMIT  wait by the client's own means         yes | no
//	hammer KEY TTL LIMIT       try without a pause until it is had,
//	                           and give it back at once               yes TRIES | no TRIES
//	renew KEY TTL              with the TTL that it was taken with    yes | no
//	release KEY                                                       yes | no
//	count KEY TTL COUNTER FOR  for so long: take KEY, add 1 to
//	                           COUNTER by reading and writing it      did ROUNDS
//
// All times are in milliseconds. What should not happen is answered by "error TEXT".
package foreign
