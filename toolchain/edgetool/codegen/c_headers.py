"""Names that NAME.h must not have: its directory is searched for headers before those of the system.

With a string.h of ours the compiler's own <string.h> is gone, and what includes it no longer compiles. Sources: the
headers of ISO C99 to C23, of POSIX, of glibc, newlib, GCC and CMSIS that lie at the top of a search path; and the
devices of Windows, which no file of any extension can be called there.
"""

from __future__ import annotations

_STANDARD = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbit stdbool stdckdint stddef stdint stdio stdlib stdmchar stdnoreturn string tgmath threads time uchar wchar wctype
"""
_POSIX = """
aio cpio devctl dirent dlfcn endian fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen libintl monetary mqueue
ndbm netdb nl_types poll pthread pwd regex sched search semaphore spawn strings stropts syslog tar termios trace ulimit
unistd utime utmpx varargs wordexp
"""
_SYSTEMS = """
alloca ar argp argz byteswap conio crypt direct elf envlock envz err error execinfo fastmath features fpu_control fstab
fts getopt gshadow ieee754 ieeefp ifaddrs io lastlog link malloc mcheck memory mntent newlib nss obstack paths printf
process pty reent regdef regexp resolv sgtty shadow share stab stdfix strsafe syscall sysexits syslimits termio ttyent
ucontext unctrl unwind utmp values wait windows winsock
"""
_PROCESSORS = """
arm_acle arm_bf16 arm_cde arm_cmse arm_const_structs arm_fp16 arm_helium_utils arm_math arm_mve arm_mve_types arm_neon
arm_nn_math_types arm_nn_tables arm_nn_types arm_nnfunctions arm_nnsupportfunctions cmsis_armcc cmsis_armclang
cmsis_compiler cmsis_gcc cmsis_iccarm cmsis_version core_cm0 core_cm0plus core_cm3 core_cm33 core_cm4 core_cm55 core_cm7
core_cm85 cpuid immintrin mm_malloc mmintrin xmmintrin
"""
_DEVICES = """
aux con nul prn com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9
"""

TAKEN = frozenset(" ".join((_STANDARD, _POSIX, _SYSTEMS, _PROCESSORS, _DEVICES)).split())


def is_taken(name: str) -> bool:
    """Whether NAME.h would be a header of the system, or a device; some file systems take both cases for one."""
    return name.lower() in TAKEN
