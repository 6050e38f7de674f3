// Package shardcore exports the decision core of a scheduler shard to programs that step it by hand instead of running
// the service: the simulation of the whole system (test/sim). It adds nothing to internal/decide, where to start
// reading; because the names are aliases, the simulation runs the same code as the service.
package shardcore
