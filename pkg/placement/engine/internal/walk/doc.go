// Package walk has the order in which a profile that samples visits the nodes. Start reading at Order.Walk.
package walk
