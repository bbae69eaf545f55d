# Box: the black box of a process (prof_blackbox): a file with the tables of its profiler, which
# stays if the process is killed. A core file has the same tables. jeprof leaves the reading of them
# to jeprofctl, which checks each object and makes a profile of them as the library writes it.
# Callers: Input for boxes, and Main for the verb salvage, which takes core files too.
package Box;

my %text; # path => profile: the box of a living process changes, so it is read once

# Do these bytes begin a box, of a machine of whichever byte order?
sub is_one { return $_[0] =~ /\A(?:jjptable|elbatpjj)/ ? 1 : 0 }

# The text of the profile in a box or core file; fails if jeprofctl cannot read it.
sub of_file {
	my ($path) = @_;
	return $text{$path} //= profile($path, undef, $path =~ /^-/ ? "./$path" : $path);
}

# The text of the profile in the bytes of a box or core file, which came compressed or from a pipe;
# $path is its name in messages.
sub of_bytes {
	my ($path, $data) = @_;
	return profile($path, $data, '-');
}

# Has jeprofctl read the file $name, or if that is '-' its standard input: $data, bytes or a handle.
# Returns the text of the profile; $path is the name in messages. Fails if jeprofctl is not there or fails.
sub profile {
	my ($path, $data, $name) = @_;
	my $ctl = Tool::find('jeprofctl') // Talk::fail(1,
		"$path: tables of the profiler are read by jeprofctl, which is not there; "
		    . 'where it is: ' . Talk::command('salvage', '-o', 'FILE.heap', [$path]));
	my ($code, $out, $err) = Tool::asked($data, $ctl, 'dump', '-q', '--core', $name, '-o', '-');
	return $out if !$code;
	my @why = $err =~ /^(?:jeprofctl: )?(?:\Q$name\E: )?(.+)$/mg;
	my $how = $code > 128 ? sprintf 'signal %d ended jeprofctl', $code - 128 : "jeprofctl failed with code $code";
	return Talk::fail(1, "$path: " . join('; ', @why ? @why : $how));
}

# ---- the verb ----
# The verb: writes the profile in one black box or core file ('-': standard input), for readers that
# know neither, to where Export::put() writes. A doubt if that file lacks its last bytes.
sub salvage {
	my ($option, @files) = @_;
	Talk::fail(2, 'salvage takes one black box or core file') if @files != 1;
	my ($path) = @files;
	Input::need_path($path) if $path ne '-';
	my $text = $path eq '-' ? profile($path, \*STDIN, '-') : of_file($path); # a core may be large
	Dump::doubt_cut($path, $1) if $text =~ /^# jemalloc[.]cut=([1-9]\d*)$/m;
	Export::put($option, 'salvage', $path, $text);
}
