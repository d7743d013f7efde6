// Package shard divides work among the replicas of a program.
package shard
