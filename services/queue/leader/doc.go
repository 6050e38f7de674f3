// Package leader competes for the leadership of the queue and does the leader's work.
package leader
