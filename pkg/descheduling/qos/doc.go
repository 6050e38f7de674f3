// Package qos computes a pod's quality of service, by which the descheduler orders pods for eviction.
//
// Start reading at Of.
package qos
