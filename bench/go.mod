module github.com/distlock/distlock/bench

go 1.26

require github.com/distlock/distlock v0.0.0

replace github.com/distlock/distlock => ../
