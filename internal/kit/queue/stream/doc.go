// Package stream exists so that the production mode needs no second kind of server: it is the queue.Broker over Redis
// Streams. And it is the one broker to which another script of the same Redis may append: what a sale's gate admits is
// in the queue by the same step, so that there is no hand-over that could fail.
//
//	PublishAfter ─────► queue:{topic}:delayed ─► (when due) the end of queue:{topic}
//	Publish ──────────► queue:{topic} ─┐            ┌─ ack: deleted
//	                                   ├─► take ─► handler ─ retry ─► queue:{topic}:delayed ─► (when due) back to the end
//	a gate's script ──► {sale:42}:stream            ├─ dead: kept by Options.DeadLetter, then deleted
//	                                                └─ requeue: free for whoever takes next
//
// A topic has a stream of its own and, by Options.Streams, further ones that others append to. Each has its set of
// delayed messages beside it, in the same cluster slot. All that is done to a stream is one script a step, in lua/, and
// every script judges time by Redis's clock.
//
// A stream holds exactly what is not done: an acked entry is deleted in the same step. So nothing is ever trimmed, its
// length is the backlog, and a group that got lost is made again from the beginning without losing or repeating much.
//
// What consumers leave behind comes to others:
//
//	stops in good order      what it had is free at once
//	dies, freezes            its entries are free after 15 s without a sign of life; a long handler gives signs
//	an answer gets lost      the consumer finds its own entries before anything else, and that is no delivery
//	kills its consumers      after two deliveries an entry travels alone, after five it is a dead letter
//
// Consumers don't block on Redis: one blocking read can't wait for streams of several cluster slots, and one that is cut
// off may have been given entries that nobody sees. Whoever appends rings a bell (PUBLISH), consumers look at what was
// rung for, and at everything once a second in case they didn't hear.
//
// What an error of Publish means: any error that Redis answers (memory is full, a replica, the disk, a wrong type) and a
// connection that can't be made are queue.ErrRefused; silence is unknown. Appended is as durable as Redis's append-only
// file is configured to be. Messages carry no MAC, unlike rabbit's: who can write to Redis can write to the gate.
package stream
