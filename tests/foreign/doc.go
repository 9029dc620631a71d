// Package foreign has only tests: other lock clients and distlock use the same Redis key. The
// package is a separate module, so that these clients never become dependencies of distlock. A
// fence is a fencing token.
//
// Each client runs in its own process and reads commands of the test, line by line:
//
//	take KEY TTL               try once                               yes | no
//	await KEY TTL PAUSE LIMIT  wait with the client's own method      yes | no
//	hammer KEY TTL LIMIT       try without a pause until granted,
//	                           and release at once                    yes TRIES | no TRIES
//	renew KEY TTL              with the TTL of the acquire            yes | no
//	release KEY                                                       yes | no
//	count KEY TTL COUNTER FOR  for the time FOR: take KEY, add 1 to
//	                           COUNTER by reading and writing it      did ROUNDS
//
// All times are in milliseconds. The answer to an unexpected failure is "error TEXT".
package foreign
