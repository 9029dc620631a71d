package open

// WayToRedis is what a URL for Redis tells about the way there.
var WayToRedis = wayToRedis

var WayToPostgres = wayToPostgres
